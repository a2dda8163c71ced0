"""What the checks of this folder know about Rust source, laid out as rustfmt does it."""
import re

COMMENT_OR_LITERAL = re.compile(
    r"""//[^\n]*
      | /\*.*?\*/
      | (?<!\w)[bc]?r(?P<hashes>\#*)".*?"(?P=hashes)
      | (?<!\w)[bc]?"(?:\\.|[^"\\])*"
      | (?<!\w)b?'(?:\\(?:u\{\w+\}|x\w\w|.)|[^\\'\n])'""",
    re.VERBOSE | re.DOTALL,
)
FUNCTION = re.compile(r"( *)(?:pub(?:\([^)]*\))? |default |const |async |unsafe |extern (?:\"[^\"]*\" )?)*fn (\w+)")


def blank(code):
    """Replaces comments and literals by spaces; lines and columns stay the same."""
    return COMMENT_OR_LITERAL.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), code)


def function_lengths(lines):
    """Yields (line, name, length in lines) for each function with a body.

    A function ends at the first "}" with the same indentation as its "fn".
    """
    for start, line in enumerate(lines):
        function = FUNCTION.match(line)
        if not function:
            continue
        for end in range(start, len(lines)):
            text = lines[end].rstrip()
            in_signature = end == start or text.startswith(function[1] + ")") or text.startswith(function[1] + "where")
            if in_signature and text.endswith(";"):
                break  # a declaration in a trait
            if text == function[1] + "}" or (end == start and text.endswith("}")):
                yield start + 1, function[2], end - start + 1
                break
