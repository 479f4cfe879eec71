"""Text that others chose reaches a terminal through base/text.h alone: in src/, nothing prints a
variable text in another way. Usage: test_shown.py SOURCE_ROOT"""
import os
import re
import sys

# file -> why what it prints may go out as it is
FREE = {
    "src/base/text.c": "it is the door",
    "src/cli/options.c": "help: our own texts",
    "src/cli/cmd_help.c": "our own texts, and a script of them",
    "src/compare/show.c": "lines whose names went through text_append_printf",
    "src/cli/watch_session.c": "a report that was made by report/",
    "src/fleet/sqlite_ask.c": "a function of SQL, in a query",
    "src/export/ctf.c": "a binary trace, in files",
    "src/export/pprof_write.c": "a compressed profile",
    "src/export/otlp_write.c": "a compressed profile",
    "src/heap/packing.c": "a packed file",
    "src/heap/saved.c": "the magic of a packed file",
    "src/import/rows.c": "a file",
    "src/replay/main.c": "JSON that mallow reads and prints through text_put_json",
    "src/show/html_pack.c": "a page",
    "src/show/html_page.c": "a page",
    "src/base/json.c": "quotes through text_shown_json",
    "src/base/lines.c": "what it is given went through lines_harmless or lines_quoted",
    "src/show/layout.c": "characters through text_shown",
    "src/workload/djmalloc_write.c": "a file",
    "src/workload/pack.c": "a file",
}
PRINTF = re.compile(r"(?<!\w)(v?f?printf|v?dprintf)\(")
# puts and fputs of anything but literals, or a choice of literals
PUT = re.compile(r"(?<!\w)(fputs|puts)\((?!\s*\")([^;]*);", re.S)
WRITE = re.compile(r"(?<!\w)(fwrite|fwrite_unlocked|putchar|putc|fputc)\((?!'[^']*')")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"|\bNULL\b')


THROUGH = re.compile(r"(?<!\w)(text_printf|text_append_printf|lines_add)\(")
LINE_END = re.compile(r'"(?:[^"\\]|\\.)*\\n(?:[^"\\]|\\.)*"')


def arguments(text, start):
    """The arguments of the call whose parenthesis opens before start."""
    depth, found, at = 1, [], start
    for m in re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|[(),]').finditer(text, start):
        token = m.group()
        if token == "(":
            depth += 1
        elif token == ")":
            depth -= 1
        if depth == 0 or (depth == 1 and token == ","):
            found.append(text[at:m.start()])
            at = m.end()
        if depth == 0:
            break
    return found


def escaped_line_ends(text):
    """Line ends that stand in an argument, where the door writes them out as \\n."""
    for m in THROUGH.finditer(text):
        behind_format = False
        for argument in arguments(text, m.end()):
            if behind_format and LINE_END.search(argument):
                yield text.count("\n", 0, m.start()) + 1, m.group(1) + ": a line end in an argument is escaped"
            behind_format |= argument.lstrip().startswith('"')


def literal_choice(text):
    """`a ? "x" : "y"`: what is put is one of our own texts."""
    return bool(re.match(r'[^?"]*\?\s*"', text)) or text.startswith(("help_text,", "color ? on"))


def faults(text):
    text = COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    for m in PRINTF.finditer(text):
        yield text.count("\n", 0, m.start()) + 1, m.group(1)
    for m in PUT.finditer(text):
        if not literal_choice(m.group(2)):
            yield text.count("\n", 0, m.start()) + 1, m.group(1)
    for m in WRITE.finditer(text):
        yield text.count("\n", 0, m.start()) + 1, m.group(1)
    yield from escaped_line_ends(text)


def check_itself():
    bad = ['printf("%s", x);', 'fprintf(out, "x");', "puts(name);", "fputs(e->text, out);", "fwrite(a, 1, n, f);",
           "vfprintf(stderr, f, ap);", "putchar(*s);", 'text_printf(out, "%s", last ? "\\n" : "");']
    good = ['text_printf(out, "%s", x);', 'puts("x");', 'fputs(on ? "a" : "b", out);', "putc('\\n', out);",
            "/* printf(x) */", 'snprintf(a, n, "%s", b);', "buffer_printf(&b, f);",
            'text_printf(out, "a"\n "b\\n", f("x", 1));']
    for line in bad:
        assert list(faults(line)), f"passes: {line}"
    for line in good:
        assert not list(faults(line)), f"does not pass: {line}"


def main(root):
    check_itself()
    found = unused = 0
    free = dict(FREE)
    for directory, _, names in sorted(os.walk(os.path.join(root, "src"))):
        relative = os.path.relpath(directory, root)
        if relative.split(os.sep)[:2] in (["src", "preload"], ["src", "bpf"]):
            continue
        for name in sorted(n for n in names if n.endswith((".c", ".h"))):
            path = f"{relative}/{name}"
            text = open(os.path.join(directory, name)).read()
            bad = list(faults(text))
            if path in free:
                unused += not bad
                if not bad:
                    print(f"{path} is in the list of exceptions and needs none")
                bad = list(escaped_line_ends(text))
            for line, what in bad:
                found += 1
                print(f"{path}:{line}: {what}: text goes to a terminal through base/text.h")
    return 1 if found or unused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
