"""What README.md, CONTRIBUTING.md, docs/*.md and the emulator's pages name exists, and the README shows the example
that CI runs."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")),
         *sorted((ROOT / "emulator").rglob("*.md"))]
FOLDERS = sorted(p.name for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith((".", "build")))
SOURCES = "".join(p.read_text() for top in ("include", "support", "ir", "tests", "bench") for p in (ROOT / top).rglob("*")
                  if p.suffix in (".cpp", ".h", ".py"))
problems = []


def exists(page, path):
    """A path of the repository or of the page's folder; * and … stand for anything."""
    pattern = path.replace("…", "*")
    return any(any(top.glob(pattern)) if "*" in pattern else (top / pattern).exists() for top in (ROOT, page.parent))


def anchors(page):
    """The anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ +(.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def check_links(page, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        if not linked.exists():
            problems.append(f"{page.name}: the link to {target} leads nowhere")
        elif anchor and anchor not in anchors(linked):
            problems.append(f"{page.name}: {linked.name} has no heading #{anchor}")


def check_paths(page, text):
    beside = [] if page.parent == ROOT else [p.name for p in page.parent.iterdir() if p.is_dir()]
    for path in re.findall(rf"(?<![\w/.$>-])((?:{'|'.join(FOLDERS + beside)})/[\w./*…+-]*)", text):
        if not exists(page, path.rstrip(".")):
            problems.append(f"{page.name}: there is no {path}")


def check_variables(page, text):
    """Environment variables and macros; the emulator puts its variables together from its settings' names."""
    for name in re.findall(r"\bRIFFLE_[A-Z_]+[A-Z]\b", text):
        if name not in SOURCES and not name.startswith("RIFFLE_EMULATOR_"):
            problems.append(f"{page.name}: there is no {name}")


def check_readme():
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    for file in ("examples/embed.cpp", "examples/embed.txt"):
        if (ROOT / file).read_text() not in [content for _, content in blocks]:
            problems.append(f"README.md: no code block equals {file}")


for page in PAGES:
    text = page.read_text()
    check_links(page, text)
    check_paths(page, text)
    check_variables(page, text)
check_readme()
linked = {(p.parent / t.partition("#")[0]).resolve() for p in PAGES for t in re.findall(r"\]\(([^)\s]+)\)", p.read_text())}
problems += [f"no page links to {p.name}" for p in PAGES if p.parent == ROOT / "docs" and p not in linked]
sys.exit("\n".join(problems) if problems else 0)
