"""The key of a report in the index has every option: each field of the structs that a report is asked for with.

    keyed.py SOURCE_ROOT
    keyed.py --self-test SOURCE_ROOT     the check fails for each field that the table lacks, and for one that is new
"""
import re
import sys
from pathlib import Path

# a struct, its header, the name of the field that holds it
STRUCTS = [("report_options", "src/report/report.h", ""), ("selection_options", "src/frames/select.h", "select."),
           ("names_look", "src/frames/look.h", "look.")]


def fields(text, struct):
    body = re.search(r"\nstruct %s \{(.*?)\n\};" % struct, text, re.S).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    found = []
    for line in body.split(";"):
        if "(*" in line:
            found.append(re.search(r"\(\*(\w+)\)", line).group(1))
        elif line.strip():
            first, *others = line.split(",")
            found += [re.search(r"(\w+)\s*(?:\[.*\])?$", part.strip()).group(1) for part in [first, *others]]
    return found


def wrong(headers, table):
    """The fields that only the structs have, and those that only the table has."""
    wanted = set()
    for struct, header, prefix in STRUCTS:
        wanted |= {prefix + field for field in fields(headers[header], struct)}
    wanted -= {"select", "look"}
    keyed = re.findall(r"FIELD\(KEY_\w+, ([\w.]+)\)", table)
    return sorted(wanted.symmetric_difference(keyed)), keyed


def main(arguments):
    root = Path(arguments[-1])
    headers = {header: (root / header).read_text() for _, header, _ in STRUCTS}
    table = (root / "src/page/keep.c").read_text()
    bad, keyed = wrong(headers, table)
    if bad:
        sys.exit("src/page/keep.c: the table of the key and the options differ in: %s" % ", ".join(bad))
    if arguments[0] != "--self-test":
        return
    for field in keyed:
        without = re.sub(r" *FIELD\(KEY_\w+, %s\),\n" % re.escape(field), "", table)
        assert wrong(headers, without)[0] == [field], field
    for struct, header, prefix in STRUCTS:
        for line in ("bool fresh", "uint64_t other, fresh", "const char *fresh"):
            more = headers[header].replace("struct %s {\n" % struct, "struct %s {\n    %s;\n" % (struct, line), 1)
            assert prefix + "fresh" in wrong({**headers, header: more}, table)[0], (struct, line)


if __name__ == "__main__":
    main(sys.argv[1:])
