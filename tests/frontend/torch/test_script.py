"""TorchScript against eager: loops, branches, lists, changes in place; what is refused, and where it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # what TorchScript knows

import pytest

torch = pytest.importorskip("torch")

from legato.base.errors import ImportModelError, UnsupportedError  # noqa: E402
from legato.frontend.torch.script.importer import import_script  # noqa: E402
from legato.frontend.torch.script.walk import ScriptWalk  # noqa: E402
from tests.frontend.torch.scripts import agrees, infos  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
Tensor = torch.Tensor
F = torch.nn.functional
X = ((torch.arange(12) * 7 + 3) % 12 - 5).reshape(3, 4).float()


def select_in_a_loop(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    for i in range(x.size(0)):
        y[i] += x[i] * 2
    return y


def chain_of_views(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.clone()
    row = y.t()[1:3]
    row[0, 1:].mul_(3)
    y.view(-1)[0] = 7
    return y, row


def older_view(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 1
    part = y[:, 1]
    y.add_(10)
    part.mul_(2)
    y[0] = 0
    return y, part


def permuted(x: Tensor) -> Tensor:
    y = x.clone()
    y.unsqueeze(0).permute(2, 0, 1)[1, 0].zero_()
    y.diagonal().fill_(9)
    return y


def write_in_branch(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.clone()
    row = y[0]
    if x.sum() > 0:
        row.add_(1)
        z = y + 1
    else:
        y[:, 0] = 5
        z = y - 1
    return y + row, z


def fresh_from_branch(x: Tensor) -> Tensor:
    z = x + 1 if x.sum() > 0 else x - 1
    z.mul_(2)
    return z


def known_branch(x: Tensor, flag: Tensor | None = None) -> Tensor:
    if flag is None and x.dim() == 2 and x.dtype == torch.float32:
        return x.double()
    return x


def run_time_rounds(x: Tensor, n: int) -> tuple[Tensor, Tensor, int]:
    y = x.clone()
    z = x
    total = 0
    for i in range(n):
        y[i] += z[0]
        z = z + y
        total += i * 2
    return y, z, total


def data_rounds(x: Tensor) -> tuple[Tensor, int]:
    count = 0
    y = x.abs() + 1
    while bool(y.max() < 100):
        y = y * 2
        count += 1
    return y, count


def ended_early(x: Tensor) -> Tensor:
    y = x.abs() + 1
    i = 0
    while i < 5 and bool(y.sum() < 200):
        y = y * 2
        i += 1
    return y


def nested(x: Tensor, n: int) -> Tensor:
    y = torch.zeros_like(x)
    for i in range(n):
        if bool(x[0, 0] > i):
            for j in range(2):
                y[j] = y[j] + i
        else:
            y -= 1
    return y


def row_from_the_end(x: Tensor, n: int) -> Tensor:
    y = x.clone()
    y[n] = 0
    y[:, n] += 1
    return y


def lists(x: Tensor) -> Tensor:
    rows: list[Tensor] = []
    for i in range(3):
        rows.append(x[i] * i)
    rows[0] = rows[1] + 1
    rows[2].add_(1)
    last = rows.pop()
    return torch.stack(rows + [last])  # noqa: RUF005


def tables(x: Tensor) -> dict[str, Tensor]:
    made: dict[str, Tensor] = {"a": x}
    made["b"] = made["a"] * 2
    if "b" in made and len(made) == 2:
        made["c"] = made["b"].sum(0)
    return made


def tensor_in_a_list(x: Tensor) -> Tensor:
    y = x.clone()
    kept = [y, y[0]]
    y.mul_(2)
    kept[1].add_(1)
    return kept[0] + kept[1]


def split_read(x: Tensor) -> Tensor:
    y = x.clone()
    a, b = y.split(2, 1)
    y.add_(1)
    return a * b


def split_written(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.clone()
    a, b = y.chunk(2, 1)
    b.add_(1)
    a[0] = 2
    y.split([1, 2], 0)[1].mul_(3)
    for column in y.unbind(1):
        column.sub_(column[0].item())
    return y, a + b


def copies(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.clone()
    z = y.to(torch.float32, copy=True)
    z.add_(1)
    return y, z


def integers(x: Tensor, n: int) -> Tensor:
    a = 6 & 3
    b = 2**3
    c = -7 // 2 + -7 % 3
    return x * a + b + c + (n % 3) / 2 + n // -4


def composites(x: Tensor) -> Tensor:
    return F.hardtanh(x) + F.softplus(F.pad(x, [0, 0])) + torch.einsum("ij,ij->i", x, x).unsqueeze(1)


def swapped(x: Tensor, n: int) -> tuple[Tensor, Tensor]:
    a = x
    b = x
    for i in range(n):
        a, b = b, a + i
    return a, b


def branch_in_a_loop(x: Tensor, n: int) -> Tensor:
    y = x.clone()
    for i in range(n):
        z = y[i]
        if bool(z.sum() > 0):
            z.mul_(2)
        else:
            y[:, i] = 1.0
    return y


def two_views(x: Tensor, n: int) -> Tensor:
    y = x.clone()
    a = y[0]
    b = y.view(-1)[0:4]
    for _i in range(n):
        a.mul_(2)
        b.add_(1)
    return y * b


def carried_twice(x: Tensor, n: int) -> Tensor:
    y = x.clone()
    z = y
    for _i in range(n):
        y, z = z, y
        y = y + z
    return (y + 1) * z


def fresh_in_each_round(x: Tensor, n: int) -> Tensor:
    y = x.clone()
    for _i in range(n):
        q = y.clone()
        if bool(q[0, 0] > 2):
            q.zero_()
        y = q + 1
    return y


def loops_in_each_other(x: Tensor, n: int) -> Tensor:
    y = x.clone()
    v = y[1:]
    w = v.t()[0]
    for _i in range(n):
        w += 1
        for _j in range(n):
            v[0] += y[0]
    return y * 1


def left_by_break(x: Tensor, n: int) -> Tensor:
    i = 0
    t = x
    while i < n:
        if i == 2:
            break
        t = t + 1
        i += 1
    return t


def indexed(x: Tensor, n: int) -> Tensor:
    y = x.clone()
    rows = torch.tensor([0, 2])
    y[rows] = 5.0
    y[:, rows] += 1
    y.index_add_(0, rows, x[:2])
    y.scatter_(1, torch.tensor([[1], [0], [2]]), 7.0)
    return y.copy_(y + n)


def boolean(x: Tensor) -> Tensor:
    y = x.clone()
    y[y > 0] = -1.0
    return y.masked_fill_(y == -5, 2.0)


ONE = [select_in_a_loop, chain_of_views, older_view, permuted, write_in_branch, fresh_from_branch, known_branch,
       data_rounds, ended_early, lists, tables, tensor_in_a_list, split_read, split_written, copies, composites,
       boolean]  # fmt: skip
WITH_NUMBER = [run_time_rounds, nested, integers, swapped, branch_in_a_loop, two_views, carried_twice,
               fresh_in_each_round, loops_in_each_other, left_by_break, indexed]  # fmt: skip


@pytest.mark.parametrize("function", ONE, ids=lambda f: f.__name__)
def test_one_tensor(function: Callable[..., Any]) -> None:
    script = torch.jit.script(function)
    if function is known_branch:
        agrees(torch.jit.script(_Known().eval()), (X,))
    else:
        agrees(script, (X,), (-X,), (X * 0.25 + 1,))


@pytest.mark.parametrize("function", WITH_NUMBER, ids=lambda f: f.__name__)
def test_with_a_number(function: Callable[..., Any]) -> None:
    agrees(torch.jit.script(function), (X, 0), (X, 1), (X + 3, 3))


def list_while_a_tensor_changes(x: Tensor) -> tuple[Tensor, list[Tensor]]:
    rows: list[Tensor] = []
    y = x + 1
    i = 0
    while i < 3:
        y.add_(1)
        rows.append(y.clone())
        i += 1
    return y, rows


def test_a_body_that_is_tried_and_refused_leaves_nothing() -> None:
    agrees(torch.jit.script(list_while_a_tensor_changes), (X,))


def two_of_a_list(x: Tensor) -> Tensor:
    a, b = torch.split(x, 1)
    return a + b


def test_a_list_is_unpacked_into_as_many() -> None:
    script = torch.jit.script(two_of_a_list)
    agrees(script, (X[:2],))
    with pytest.raises(ImportModelError, match="a list of 3 is unpacked into 2"):
        import_script(script, infos((X,)))


def test_a_row_that_a_number_names() -> None:
    agrees(torch.jit.script(row_from_the_end), (X, 0), (X, 2), (X, -1), (X, -3))


class _Known(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Tensor) -> Tensor:
        return known_branch(x)


def write_to_expanded(x: Tensor) -> Tensor:
    y = x[0].clone()
    y.expand(3, 4).add_(1)
    return y


def write_to_what_may_copy(x: Tensor) -> Tensor:
    y = x.clone()
    y.t().contiguous().add_(1)
    return y


def read_what_may_copy(x: Tensor) -> Tensor:
    y = x.clone()
    z = y.reshape(-1)
    y.add_(1)
    return z


def write_after_dropout(x: Tensor) -> Tensor:
    y = x.clone()
    F.dropout(y, 0.5, False).add_(1)
    return y


def write_to_a_choice(x: Tensor) -> Tensor:
    a = x + 1
    b = x + 2
    c = a
    if x.sum() > 0:
        c = b
    c.add_(1)
    return a + b


def read_a_choice(x: Tensor) -> Tensor:
    a = x + 1
    c = x
    if x.sum() > 0:
        c = a[0:3]
    a.add_(1)
    return c


def write_to_carried(x: Tensor, n: int) -> Tensor:
    y = x.clone()
    z = y
    for _i in range(n):
        z.add_(1)
        z = z * 2
    return y + z


def list_in_a_branch(x: Tensor) -> Tensor:
    rows = [x]
    if x.sum() > 0:
        rows.append(x + 1)
    return torch.stack(rows)


def list_chosen(x: Tensor) -> Tensor:
    rows = [x]
    other = [x + 1]
    chosen = rows if x.sum() > 0 else other
    chosen.append(x)
    return torch.stack(rows + other)


def list_chosen_source(x: Tensor) -> Tensor:
    rows = [x]
    other = [x + 1]
    chosen = rows
    if x.sum() > 0:
        chosen = other
    rows.append(x)
    return torch.stack(chosen)


def list_index(x: Tensor) -> Tensor:
    rows = [x, x + 1]
    return rows[int(x.sum() > 0)]


def resized(x: Tensor) -> Tensor:
    y = x.clone()
    return y.t_() + y.unsqueeze_(0)


def into(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    torch.add(x, x, out=y)
    return y


def asserted(x: Tensor) -> Tensor:
    assert bool(x.sum() > 0), "positive"
    return x


def random(x: Tensor) -> Tensor:
    return F.dropout(x, 0.5, True)


def list_of_lists_equal(x: Tensor) -> Tensor:
    return x + 1 if [x] == [x] else x


def zero_division(x: Tensor) -> Tensor:
    return x * (1 / x.dim() // (x.dim() - 2))


REFUSED = [write_to_expanded, write_to_what_may_copy, read_what_may_copy, write_after_dropout,
           write_to_a_choice, read_a_choice, write_to_carried, list_in_a_branch, list_chosen, list_chosen_source,
           list_index, resized, into, asserted, random, list_of_lists_equal, zero_division]  # fmt: skip


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_what_is_not_certain_is_refused_where_it_stands(function: Callable[..., Any]) -> None:
    args = (X, 2) if function is write_to_carried else (X,)
    with pytest.raises(UnsupportedError) as caught:
        import_script(torch.jit.script(function), infos(args))
    assert caught.value.span is not None


class _Counts(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.rows: list[int] = [1, 2]

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return x * self.count


class _Appends(_Counts):
    def forward(self, x: Tensor) -> Tensor:
        self.rows.append(3)
        return x * len(self.rows)


@pytest.mark.parametrize("kind", [_Counts, _Appends])
def test_a_module_that_changes_itself_is_refused(kind: Any) -> None:
    with pytest.raises(UnsupportedError, match="of the module"):
        import_script(torch.jit.script(kind().eval()), infos((X,)))


def test_training_and_other_things_are_refused() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Dropout())
    with pytest.raises(ImportModelError, match="training"):
        import_script(torch.jit.script(net), infos((X,)))
    with pytest.raises(ImportModelError, match="TorchScript"):
        import_script(net.eval(), infos((X,)))
    with pytest.raises(ImportModelError, match="1 arguments, 2 are given"):
        import_script(torch.jit.script(net.eval()), infos((X, X)))


def test_traces_keep_sizes_that_they_compute() -> None:
    def flat(x: Tensor) -> Tensor:
        return x.view(x.size(0) * 2, -1) + x.shape[1] // 3

    agrees(torch.jit.trace(flat, (X,)), (X,), (-X,))
    agrees(torch.jit.script(flat), (X,), (-X,))


def test_a_stack_that_ends_is_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScriptWalk, "_node", lambda self, node, env: self._node(node, env))
    with pytest.raises(UnsupportedError, match="takes more of Python's stack than is left"):
        import_script(torch.jit.script(chain_of_views), infos((X,)))
