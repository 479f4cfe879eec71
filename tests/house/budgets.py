"""budgets.txt: counts that only go down. A line is a number, a blank, and the name of the count. A count above its budget fails, with
the first of what it counts that is new to the reader; who lowers a count lowers the line with it."""
import os

HERE = os.path.dirname(os.path.abspath(__file__))
SHOWN = 12


def read(text=None):
    if text is None:
        with open(os.path.join(HERE, "budgets.txt"), encoding="utf-8") as f:
            text = f.read()
    found = {}
    for line in text.split("\n"):
        if line and not line.startswith("#"):
            number, name = line.split(" ", 1)
            found[name] = int(number)
    return found


def over(counted, text=None):
    """counted: name -> what was counted. A complaint for each that is above its budget, or has none."""
    allowed = read(text)
    bad = [f"budgets.txt has no budget for '{name}'" for name in counted if name not in allowed]
    for name, found in counted.items():
        if len(found) > allowed.get(name, len(found)):
            bad.append(f"{len(found)} {name}; the budget is {allowed[name]}, and only goes down. Some of them: {', '.join(found[:SHOWN])}")
        elif len(found) < allowed.get(name, 0):
            print(f"note: {len(found)} {name}: the budget of {allowed[name]} in budgets.txt can be lowered")
    return bad


def check_itself():
    assert over({"x": [1, 2]}, "# a\n2 x\n") == [] and len(over({"x": "abc"}, "2 x\n")) == 1 and len(over({"y": []}, "2 x\n")) == 1


check_itself()
