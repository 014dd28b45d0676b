"""Pages in a headless Chromium, driven by selenium. Exits with 77 where one of them is missing."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import zipfile


def skip(reason):
    print(reason)
    sys.exit(77)


try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    skip("selenium is not installed for /usr/bin/python3: Debian's python3-selenium")

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not CHROMIUM or not DRIVER:
    skip("there is no browser: Debian's chromium and chromium-driver")

AXE = "axe-core-python==0.1.0"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "lockstep" / "axe"


def axe_script():
    """axe-core, as its Python package ships it: downloaded once below the user's cache, not installed."""
    script = CACHE / "axe.min.js"
    if not script.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(CACHE), AXE]
        if subprocess.run(download, capture_output=True).returncode != 0:
            skip("axe-core cannot be downloaded here: " + AXE)
        wheel = next(CACHE.glob("*.whl"))
        partial = CACHE / ("axe.%d" % os.getpid())
        with zipfile.ZipFile(wheel) as archive:
            partial.write_bytes(archive.read("axe_core_python/axe.min.js"))
        partial.rename(script)
    return script.read_text()


class Browser:
    def __init__(self):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--window-size=1280,900"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service(DRIVER), options=options)
        self.driver.set_script_timeout(120)
        self.axe = axe_script()

    def close(self):
        self.driver.quit()

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def open(self, page):
        """Opens a page, and returns the seconds until its charts are drawn."""
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        begin = time.monotonic()
        self.driver.get(pathlib.Path(page).as_uri())
        self.run("return new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))")
        return time.monotonic() - begin

    def console(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """Addresses that were requested since the page was opened, itself left out."""
        addresses = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                addresses.append(message["params"]["request"]["url"])
        return [address for address in addresses if not address.startswith(("file:", "data:"))]

    def emulate(self, **features):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()]})

    def as_phone(self):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": 360, "height": 844, "deviceScaleFactor": 1, "mobile": True})

    def as_desktop(self):
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def violations(self):
        """What axe-core finds wrong in the page."""
        self.run(self.axe)
        found = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1]; axe.run().then((result) => done("
            "result.violations.map((one) => one.id + ': ' + one.nodes.slice(0, 3).map((node) => node.html)"
            ".join(' '))))")
        return found

    def charts(self):
        """Of each drawn chart its caption, and by line the values that are shown on hover, with their places."""
        return self.run("""return window.lockstepCharts.map(({chart, figure}) => ({
            caption: figure.querySelector("figcaption").textContent,
            lines: chart.data.datasets.map((set) => ({
              label: set.label, texts: set.texts, steps: set.data.map((point) => point.x),
              places: set.data.map((point) => (Number.isFinite(point.y) ? point.y : null))}))}))""")

    def filter(self, table, words):
        """Types words into the filter of the table with this number. Returns the texts of its rows that are
        shown, and the count."""
        return self.run("""
            const place = document.querySelectorAll("[data-filter]")[arguments[0]];
            const field = place.querySelector("input");
            field.value = arguments[1];
            field.dispatchEvent(new Event("input"));
            const rows = [...place.querySelector("tbody").rows].filter((row) => row.offsetParent !== null);
            return [rows.map((row) => row.textContent), place.querySelector("[role=status]").textContent];
            """, table, words)
