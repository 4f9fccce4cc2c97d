"""The site: built without a warning, and opened in a browser, where nothing fails or is fetched."""

import functools
import http.server
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading

import pytest

from browser import browse, needs_browser

from .pages import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("material") is None,
        reason="needs mkdocs-material, which `make test-all` installs",
    ),
]

PAGES = (
    "index.html",
    "validation.html",
    "rules/M001.html",
    "instructions/nc_matmul.html",
    "benchmarks/index.html",
)

# An address of the kind that Material's own link would ask for figures.
HOME = "https://github.com/owner/project"


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """What the site is made of."""
    home = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", home / "docs")
    shutil.copytree(ROOT / "tools" / "theme", home / "tools" / "theme")
    shutil.copy(ROOT / "mkdocs.yml", home)
    for tool in ("gen_catalogue.py", "gen_api.py", "gen_benchmarks.py"):
        subprocess.run([sys.executable, ROOT / "tools" / tool, home / "docs"], check=True)
    return home


@pytest.fixture(scope="module")
def site(sources):
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"],
        cwd=sources,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "TRNSCI_REPOSITORY_URL": HOME},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return sources / "site"


@pytest.mark.skipif(
    importlib.util.find_spec("zensical") is None,
    reason="needs zensical, which `make test-all` installs",
)
def test_zensical_builds_it_too(sources, tmp_path):
    shutil.copytree(sources, tmp_path / "copy", ignore=shutil.ignore_patterns("site"))
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=tmp_path / "copy",
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert "No issues found" in built.stdout + built.stderr
    page = tmp_path / "copy" / "site" / "instructions" / "nc_matmul.html"
    assert "accumulate=None" in re.sub(r"<[^>]+>", "", page.read_text())


@pytest.fixture
def served(site):
    """The address of the site and the paths that were asked for."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, form, *values):
            asked.append((values[0].split()[1], values[1]))

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=site)
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


@needs_browser
@pytest.mark.parametrize("page", PAGES)
def test_a_page_opens_without_a_complaint(served, tmp_path, page):
    address, asked = served
    shown, console, wanted = browse(f"{address}/{page}", tmp_path / "user", size=(390, 844))
    assert console == []
    assert wanted
    assert [url for url in wanted if not url.startswith(address)] == []
    assert [path for path, status in asked if status != "200" and "favicon" not in path] == []
    assert "md-nav__link" in shown
    assert f'href="{HOME}"' in shown


@needs_browser
def test_the_search_asks_an_index_that_holds_the_rules(served, site, tmp_path):
    address, asked = served
    seen = browse(f"{address}/index.html?q=unwritten", tmp_path / "user")
    assert seen.console == []
    assert ("/search/search_index.json", "200") in asked
    index = json.loads((site / "search" / "search_index.json").read_text())
    assert any(entry["location"].startswith("rules/M001.html") for entry in index["docs"])
