"""The page of `legato show --html` in headless Chromium: people's clicks, and how long it takes to open.

python -m tests.viz.browser                      all checks; see `make test-page`
python -m tests.viz.browser --screenshot F.png   … and a picture of the first page
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LIMIT = 2.0  # seconds in which a page of BERT-base opens
WHAT = (
    "tests of the page need a browser, and what drives it:\n"
    "  apt-get install chromium chromium-driver    (Debian, Ubuntu; or another Chromium with its chromedriver)\n"
    "  pip install selenium"
)


def missing() -> list[str]:
    """What is not installed."""
    found = [] if (shutil.which("chromium") or shutil.which("chromium-browser")) else ["chromium"]
    found += [] if shutil.which("chromedriver") else ["chromedriver"]
    try:
        import selenium  # noqa: F401  # whether it is there
    except ImportError:
        found.append("selenium")
    return found


@contextmanager
def browser() -> Iterator[Any]:
    """Headless Chromium, which notes what it loads and what goes wrong."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--window-size=1600,1000", "--force-device-scale-factor=1"):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


class Page:
    """A page that is open, and what a reader does with it."""

    def __init__(self, driver: Any, path: Path) -> None:
        self.driver, self.path = driver, path

    def open(self) -> float:
        """Opens it; the seconds until it is drawn."""
        start = time.perf_counter()
        self.driver.get(self.path.as_uri())
        self.wait(lambda: self.js("return document.documentElement.dataset.ready"), "the page is drawn")
        self.settle()
        return time.perf_counter() - start

    def js(self, code: str, *args: Any) -> Any:
        return self.driver.execute_script(code, *args)

    def settle(self) -> None:
        """Waits for the next frame to be drawn."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
        )

    def wait(self, holds: Callable[[], Any], what: str) -> Any:
        for _ in range(300):
            found = holds()
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"waited in vain until {what}")

    def one(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        return list(self.driver.find_elements("css selector", selector))

    def text(self, selector: str) -> str:
        return str(self.js("return document.querySelector(arguments[0]).textContent", selector))

    def stage(self, number: int) -> None:
        """Moves the slider."""
        code = "const s = document.getElementById('stage'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))"
        self.js(code, number)
        self.settle()

    def search(self, words: str) -> None:
        box = self.one("#search")
        box.clear()
        box.send_keys(words)
        self.settle()

    def click(self, selector: str) -> None:
        """A press of the mouse in the middle of an element."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).move_to_element(self.one(selector)).click().perform()
        self.settle()

    def require_quiet(self) -> None:
        """Nothing was loaded but the page itself, and nothing went wrong."""
        errors = [entry["message"] for entry in self.driver.get_log("browser")]
        assert not errors, errors
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        urls = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
        assert urls <= {self.path.as_uri()}, urls


def check_clicks(page: Page) -> None:
    """Slider, search, closing and opening, text and graph beside each other."""
    stages = int(page.js("return Number(document.getElementById('stage').max)")) + 1
    names = []
    for n in range(stages):
        page.stage(n)
        names.append(page.text("#name"))
        assert names[-1].startswith(f"{n + 1}/{stages} ")
        assert page.all("#lines > div")
        assert page.all("#canvas rect, #canvas path")
        assert bool(page.text("#changed")) == (n > 0)
    fuse = next(n for n, name in enumerate(names) if name.endswith(" fuse"))
    page.stage(fuse)
    assert page.all("#lines .fresh"), "lines that the pass changed"
    rows = int(page.js("return document.getElementById('lines').dataset.rows"))
    page.click("#removed")
    gone = int(page.js("return document.getElementById('lines').dataset.rows")) - rows
    assert page.text("#changed").endswith(f"−{gone} lines")
    assert gone > 0
    page.click("#removed")

    page.search("softmax")
    assert page.text("#found").startswith("1/")
    hits = int(page.text("#found").partition("/")[2])
    assert hits > 1
    assert page.all("#canvas .hit")
    assert page.all("#canvas .selected")
    assert page.text("#told").count("softmax") >= 1
    page.click("#next")
    assert page.text("#found") == f"2/{hits}"
    page.wait(lambda: page.all("#lines .selected"), "the line of the selected node is seen")
    page.search("no such thing")
    assert page.text("#found") == "0/0"
    page.search("")

    page.click("#home")
    page.click("#fold")
    boxes = len(page.all("#canvas [data-node]"))
    groups = page.all("#canvas [data-cluster] .fold")
    assert groups
    page.click("#unfold")
    page.click("#fold")
    group = page.js(
        "return [...document.querySelectorAll('#canvas [data-fold]')].filter(e => e.textContent === '+')"
        ".sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)[0].dataset.fold"
    )
    page.click(f'#canvas [data-fold="{group}"] rect')
    assert page.text(f'#canvas [data-fold="{group}"] text') == "−"
    assert len(page.all("#canvas [data-node]")) > boxes
    page.click(f'#canvas [data-fold="{group}"] rect')
    assert page.text(f'#canvas [data-fold="{group}"] text') == "+"
    assert len(page.all("#canvas [data-node]")) == boxes

    page.click("#unfold")
    line = next(e for e in page.all("#lines > div") if "nn." in e.text or "matmul" in e.text)
    number = line.get_attribute("data-line")
    page.click(f'#lines > [data-line="{number}"]')
    assert page.all("#canvas .selected"), "a click on a line shows its node"
    assert page.all(f'#lines > .selected[data-line="{number}"]')
    page.click("#fit")
    assert page.all("#canvas path, #canvas rect")
    page.require_quiet()


def check_differences(page: Page) -> None:
    """What is left of both texts without gone and new lines is the same, and as long as can be."""
    choose = random.Random(0)
    for size in (0, 1, 5, 30, 60):
        for _ in range(20):
            a, b = ([choose.randrange(4) for _ in range(choose.randint(0, size))] for _ in range(2))
            found = page.js("const d = difference(arguments[0], arguments[1]); return [d.gone, [...d.fresh]]", a, b)
            gone, fresh = map(set, found)
            kept = [x for n, x in enumerate(a) if n not in gone]
            assert kept == [x for n, x in enumerate(b) if n not in fresh]
            assert len(kept) == longest_common(a, b)
    a, b = ([choose.randrange(1000) for _ in range(5000)] for _ in range(2))
    gone, fresh = page.js("const d = difference(arguments[0], arguments[1]); return [d.gone, [...d.fresh]]", a, b)
    common = sum((Counter(a) & Counter(b)).values())  # too many differences: lines are compared by how often they occur
    assert (len(gone), len(fresh)) == (5000 - common, 5000 - common)


def longest_common(a: list[int], b: list[int]) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for x in a:
        new = [0]
        for n, y in enumerate(b):
            new.append(row[n] + 1 if x == y else max(row[n + 1], new[-1]))
        row = new
    return row[-1]


def check_strangers(driver: Any, folder: Path) -> None:
    """Names that would be code elsewhere."""
    from legato.viz import Stage, page
    from tests.viz.test_pictures import NASTY, strange

    for n, name in enumerate(NASTY):
        path = folder / f"strange{n}.html"
        path.write_text(page(name, [Stage("imported", strange(name)), Stage("again", strange(name))]), encoding="utf-8")
        shown = Page(driver, path)
        shown.open()
        shown.stage(1)
        assert not shown.text("#changed").strip("+−0 lines"), shown.text("#changed")
        assert len(shown.all("#canvas [data-node]")) == 2
        shown.require_quiet()


def check_undrawn(driver: Any, folder: Path) -> None:
    """What has no box, a branch with nothing drawn in it or a constant, is neither found nor selected."""
    import legato
    from legato.viz import Stage, page

    path = folder / "undrawn.html"
    mod = legato.parse("""
def @main(%x: Tensor[(4,), float32], %c: bool) { if (%c) { nn.relu(%x) } else { %x } }
def @one() { 1f }
""")
    path.write_text(page("undrawn", [Stage("imported", mod)]), encoding="utf-8")
    shown = Page(driver, path)
    shown.open()
    for words, found in (("else", "0/0"), ("then", "1/1"), ("@one", "0/0"), ("relu", "1/1")):
        shown.search(words)
        assert shown.text("#found") == found, (words, shown.text("#found"))
    shown.search("")
    for number in [line.get_attribute("data-line") for line in shown.all("#lines > div")]:
        shown.click(f'#lines > [data-line="{number}"]')
    shown.require_quiet()


def check_large(driver: Any, folder: Path) -> dict[str, float]:
    """A module with 5,000 nodes stays usable: seconds of what people do with it."""
    from legato.base.target import host
    from legato.driver import CompileOptions
    from legato.viz import page, stages
    from tests.viz.graphs import large

    path = folder / "large.html"
    path.write_text(page("large", stages(large(5000), CompileOptions(host())).stages), encoding="utf-8")
    shown = Page(driver, path)
    took = {"open": shown.open()}
    doings: dict[str, Callable[[], None]] = {
        "next stage": lambda: shown.stage(1),
        "search": lambda: shown.search("nn.relu"),
        "open all": lambda: shown.click("#unfold"),
        "whole graph": lambda: shown.click("#fit"),
    }
    for name, do in doings.items():
        start = time.perf_counter()
        do()
        took[name] = time.perf_counter() - start
    shown.require_quiet()
    return took


def main() -> None:
    """All checks; exit code 1 where something is missing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path, help="what the page shows whose opening is timed: BERT-base")
    parser.add_argument("--screenshot", type=Path)
    args = parser.parse_args()
    if missing():
        sys.exit(f"not found: {', '.join(missing())}\n{WHAT}")
    from legato import cli

    with tempfile.TemporaryDirectory() as name, browser() as driver:
        folder = Path(name)
        assert cli.main(["show", str(args.model), "--html", str(folder / "page.html")]) == 0
        page = Page(driver, folder / "page.html")
        page.open()  # the browser's own start
        times = sorted(page.open() for _ in range(5))
        print(f"{args.model.name}: opens in {times[2]:.2f} s, median of 5 (limit {LIMIT} s)")
        check_clicks(page)
        check_differences(page)
        check_strangers(driver, folder)
        check_undrawn(driver, folder)
        for what, seconds in check_large(driver, folder).items():
            print(f"5,000 nodes, {what}: {seconds:.2f} s")
            assert seconds < LIMIT, what
        if args.screenshot is not None:
            take_picture(driver, args.model, folder, args.screenshot)
        assert times[2] < LIMIT
    print("slider, search, closing and opening: as they should; nothing else was loaded, no errors")


def take_picture(driver: Any, model: Path, folder: Path, path: Path) -> None:
    """The page at the stage where operators are fused, groups closed, with shares of time and a search, in few colours.
    The machine should do nothing else meanwhile."""
    from PIL import Image

    from legato import cli

    assert cli.main(["show", str(model), "--html", str(folder / "shares.html"), "--profile"]) == 0
    page = Page(driver, folder / "shares.html")
    page.open()
    page.search("softmax")
    page.click("#next")
    page.click("#fold")
    page.js("go(stage.nodes[state.hits[1]].cluster * -1 - 1)")  # the group that it is in
    page.settle()
    driver.save_screenshot(str(folder / "full.png"))
    Image.open(folder / "full.png").convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
