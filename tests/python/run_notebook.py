#!/usr/bin/env python3
"""tests/python/run_notebook.py [--update] NOTEBOOK

Runs the code cells of a notebook, one after the other, in the current directory, and compares what they print and the
value of the last line with what the notebook shows. --update writes that into the notebook. Needs no Jupyter.
"""
import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any, Dict, List


def run(source: str, names: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The outputs of a cell, as a notebook has them."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    outputs: List[Dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": lines(repr(value))}
        outputs.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return outputs


def lines(text: str) -> List[str]:
    return text.splitlines(keepends=True)


def main() -> int:
    arguments = sys.argv[1:]
    is_update = "--update" in arguments
    (path,) = [Path(argument) for argument in arguments if argument != "--update"]
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names: Dict[str, Any] = {"__name__": "__main__"}
    status = 0
    for number, cell in enumerate(notebook["cells"], 1):
        if cell["cell_type"] != "code":
            continue
        outputs = run("".join(cell["source"]), names)
        if is_update:
            cell["outputs"] = outputs
        elif cell["outputs"] != outputs:
            print(f"{path}: cell {number} shows\n{cell['outputs']}\nand gives\n{outputs}", file=sys.stderr)
            status = 1
    if is_update:
        path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
