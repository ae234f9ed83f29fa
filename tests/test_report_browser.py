"""The report in a real browser, from disk, without a network: runs where Chromium is installed."""

import json
import re
import shutil
import subprocess
from urllib.parse import urlsplit

import fake_runs
import pytest

from argand.study.report import build

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (apt-get install chromium)")

#: An unreachable proxy: whatever is asked of the network fails, and is in the log.
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000", "--proxy-server=127.0.0.1:9"]
OPTIONS += ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
OPTIONS += ["--disable-extensions", "--disable-default-apps", "--disable-dev-shm-usage", "--enable-logging=stderr"]
OWN_HOSTS = (".google.com", ".googleapis.com", ".gvt1.com")  # where Chromium itself reports to

#: Appended to a copy of the page: it waits for the plots, uses the page, and notes what it finds.
PROBE = """<script>
const probe = setInterval(() => {
  const drawn = document.documentElement.dataset.drawn;
  if (drawn === undefined) return;
  clearInterval(probe);
  const table = document.querySelector("#networks table");
  const column = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent === "compression");
  const values = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[column].dataset.value));
  table.querySelectorAll("th button")[column].click();
  const rising = values();
  table.querySelectorAll("th button")[column].click();
  const falling = values();
  const figure = document.querySelector("figure");
  figure.querySelectorAll(".switch button")[1].click();
  const [plot, picture] = [figure.querySelector(".plot"), figure.querySelector(".picture")];
  const plots = [...document.querySelectorAll(".plot")].slice(1);
  const found = {
    drawn: Number(drawn), rising, falling, plotShown: plot.offsetHeight > 0, pictureShown: picture.offsetHeight > 0,
    narrowest: Math.min(...plots.map((p) => p.querySelector(".main-svg").getBoundingClientRect().width)),
    empty: plots.filter((p) => !p.querySelector(".scatterlayer .trace, .barlayer .trace")).length,
    overflow: document.documentElement.scrollWidth - window.innerWidth,
    buttons: [...new Set([...document.querySelectorAll(".modebar-btn")].map((b) => b.dataset.title))],
  };
  const note = document.createElement("pre");
  note.id = "probe";
  note.textContent = btoa(JSON.stringify(found));
  document.body.append(note);
}, 50);
</script>"""


class Visit:
    """A page after its scripts have run: the DOM, the console's lines, the hosts that were asked for."""

    def __init__(self, page, folder):
        log = folder / "net.json"
        command = [CHROMIUM, *OPTIONS, f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}"]
        command += ["--virtual-time-budget=60000", "--dump-dom", page.as_uri()]
        result = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
        self.dom = result.stdout
        self.console = re.findall(r"CONSOLE[(:].*", result.stderr)
        hosts = {urlsplit(url).hostname or "" for url in re.findall(r'"url":"([^"]*)"', log.read_text())}
        self.hosts = {host for host in hosts if host and not f".{host}".endswith(OWN_HOSTS)}


@pytest.fixture(scope="module")
def visit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    fake_runs.whole_runs(folder / "runs")
    page = build(folder / "runs", folder / "out")
    page.write_text(page.read_text().replace("</body>", PROBE + "</body>"))
    return Visit(page, folder)


@pytest.fixture(scope="module")
def found(visit):
    from base64 import b64decode

    return json.loads(b64decode(re.search(r'<pre id="probe">([^<]*)<', visit.dom)[1]))


def test_curves_are_drawn(visit, found):
    assert visit.dom.count('class="scatterlayer mlayer"') >= 20
    assert visit.dom.count('class="trace scatter') > 100
    assert found["drawn"] == visit.dom.count("<figure>") > 20
    assert found["empty"] == 0


def test_the_console_is_silent(visit):
    assert visit.console == []


def test_nothing_is_asked_of_the_network(visit):
    assert visit.hosts == set()


def test_plots_have_the_width_of_the_page(found):
    assert found["narrowest"] > 900
    assert found["overflow"] <= 0


def test_a_click_sorts_the_table(found):
    assert found["rising"] == sorted(found["rising"])
    assert found["falling"] == sorted(found["rising"], reverse=True)
    assert len(set(found["rising"])) > 50


def test_a_click_shows_the_picture(found):
    assert found["pictureShown"]
    assert not found["plotShown"]


def test_no_button_sends_anything(found):
    assert "Zoom" in found["buttons"]
    assert not [title for title in found["buttons"] if re.search("share|cloud|send|edit", title, re.IGNORECASE)]


def test_these_checks_can_fail(tmp_path):
    page = tmp_path / "bad.html"
    page.write_text('<script>new Image().src = "http://example.org/i.png"; throw new Error("thrown")</script>')
    visit = Visit(page, tmp_path)
    assert visit.hosts == {"example.org"}
    assert any("thrown" in line for line in visit.console)
