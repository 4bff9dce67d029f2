"""The spellings of a script as TVM 0.27 reads them.

@T.prim_func                      @T.prim_func(s_tir=True)
T.block, T.block_attr             T.sblock, T.sblock_attr
T.alloc_buffer in a block         T.sblock_alloc_buffer         (in a loop it is a statement there, too)
out_sinfo=, sinfo_args=           out_ty=, ty_args=
"""

from __future__ import annotations

import ast

_KEYWORDS = {"out_sinfo": "out_ty", "sinfo_args": "ty_args"}
_NAMES = {"block": "sblock", "block_attr": "sblock_attr"}


def translated(script: str) -> str:
    """The script in the spellings of TVM 0.27."""
    tree = _Spellings().visit(ast.parse(script))
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


class _Spellings(ast.NodeTransformer):
    def __init__(self) -> None:
        self.in_loop = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [_mark(d) for d in node.decorator_list]
        return self.generic_visit(node)

    def visit_For(self, node: ast.For | ast.While) -> ast.AST:
        outer, self.in_loop = self.in_loop, True
        found = self.generic_visit(node)
        self.in_loop = outer
        return found

    visit_While = visit_For

    def visit_With(self, node: ast.With) -> ast.AST:
        outer, self.in_loop = self.in_loop, False
        found = self.generic_visit(node)
        self.in_loop = outer
        return found

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "T":
            name = _NAMES.get(node.attr, node.attr)
            node.attr = "sblock_alloc_buffer" if name == "alloc_buffer" and not self.in_loop else name
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        node.arg = _KEYWORDS.get(node.arg or "", node.arg)
        return self.generic_visit(node)


def _mark(decorator: ast.expr) -> ast.expr:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    if ast.unparse(called) != "T.prim_func":
        return decorator
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    return ast.Call(called, [], [ast.keyword("s_tir", ast.Constant(True)), *keywords])
