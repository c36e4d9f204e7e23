"""What the pages point to exists, and what the README and the pages quote is so."""

import json
import math
import pathlib
import re
import statistics

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
README, EXAMPLE = ROOT / "README.md", ROOT / "examples" / "library.py"
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [
    README,
    *(ROOT / f"{name}.md" for name in ("CONTRIBUTING", "CHANGELOG", "SECURITY")),
    *DOCS,
]

EACH_PAGE = pytest.mark.parametrize(
    "page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES]
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"(?<![\w/.])(?:src/wmg|tests|examples)/[\w./-]*\w/?")
FILE_ROW = re.compile(r"^\| \[(src/wmg/[\w/]+\.py)\]\(\1\) \| (\d+) \|", re.MULTILINE)
NAV = re.compile(r"^ +- [^:\n]+: (\S+\.md)$", re.MULTILINE)


@EACH_PAGE
def test_relative_links_lead_somewhere(page):
    targets = [link.partition("#")[0] for link in LINK.findall(page.read_text())]
    local = [target for target in targets if target and "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


@EACH_PAGE
def test_paths_that_are_named_exist(page):
    paths = set(PATH.findall(page.read_text()))
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_links_between_pages_stay_among_them(page):
    """The built site holds docs/ alone."""
    local = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    places = [(page.parent / link.partition("#")[0]).resolve() for link in local]
    assert all(place.is_relative_to(ROOT / "docs") for place in places)


@EACH_PAGE
def test_tests_that_are_quoted_exist(page):
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    quoted = set(re.findall(r"`(test_\w+)`", page.read_text()))
    assert [name for name in sorted(quoted) if f"def {name}(" not in sources] == []


def test_the_sites_menu_lists_every_page_and_no_other():
    listed = NAV.findall((ROOT / "mkdocs.yml").read_text())
    assert sorted(listed) == [str(page.relative_to(ROOT / "docs")) for page in DOCS]


def test_the_seven_files_are_about_as_long_as_the_readme_says():
    rows = FILE_ROW.findall(README.read_text())
    assert len(rows) == 7
    for path, said in rows:
        lines = len((ROOT / path).read_text().splitlines())
        assert abs(lines - int(said)) <= 0.1 * lines, f"{path} has {lines} lines"


def test_readme_and_library_page_begin_with_the_same_code_and_the_example_with_a_part_of_it():
    """tests/api/test_block.py runs it."""
    pages = README.read_text(), (ROOT / "docs" / "library.md").read_text()
    block, on_page = (re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0] for page in pages)
    assert block == on_page
    lines = [line.partition("  #")[0].rstrip() for line in block.splitlines()[:6]]
    assert [line for line in lines if line not in EXAMPLE.read_text().splitlines()] == []


def test_no_page_speaks_of_a_machine():
    for page in PAGES:
        assert not re.search(r"/(?:work|home|root|tmp)/\w", page.read_text()), page


@pytest.mark.parametrize("name", ["level2-nr-wmg-neighbours", "level2-nr-wmg-tests"])
def test_published_medians_are_those_of_the_values_beside_them(name):
    for cell in json.loads((ROOT / "results" / f"{name}.json").read_text())["cells"]:
        steps = [math.inf if value is None else value for value in cell["crossings"]]
        median = statistics.median(steps)
        assert cell["median"] == (pytest.approx(median) if math.isfinite(median) else None)


TABLE = re.compile(r"^<!-- from (results/\S+) -->\n\n((?:\|.*\n)+)", re.MULTILINE)


@EACH_PAGE
def test_tables_that_name_their_report_are_in_it(page):
    for report, table in TABLE.findall(page.read_text()):
        assert table in (ROOT / report).read_text() + "\n", f"{page} differs from {report}"


def test_pages_of_results_show_tables_of_reports():
    quoted = [report for page in PAGES for report, _ in TABLE.findall(page.read_text())]
    assert len(quoted) >= 5


def test_the_readmes_babyai_table_has_the_medians_of_the_report():
    cells = json.loads((ROOT / "results/babyai-table/report.json").read_text())["cells"]
    text = README.read_text()
    for row in cells.values():
        shown = f"{row['value']:.3g} ({row['paper']:,})"
        marked = f"*{shown}*" if row["verdict"] in ("better", "worse") else f" {shown} "
        assert marked in text, f"{row['label']}: {marked}"
