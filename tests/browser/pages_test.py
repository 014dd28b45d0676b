#!/usr/bin/env python3
"""Opens pages of the HTML report in a browser: pages_test.py WRITE_PAGES

WRITE_PAGES is the program that writes them. A page must log nothing, request nothing and pass axe-core; its
charts must have the numbers of the record."""

import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from browser import Browser

MOST_BYTES = 5 << 20
MOST_ELEMENTS = 200_000  # what a browser lays out; its seconds depend on the machine and are only printed


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.folder = tempfile.TemporaryDirectory()
        subprocess.run([WRITE_PAGES, cls.folder.name], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def page(self, name):
        return pathlib.Path(self.folder.name) / (name + ".html")

    def open(self, name):
        return self.browser.open(self.page(name))

    def names(self):
        return sorted(page.stem for page in pathlib.Path(self.folder.name).glob("*.html"))

    def chart(self, caption):
        return next(chart for chart in self.browser.charts() if chart["caption"].startswith(caption))

    def test_no_page_logs_or_requests_anything(self):
        for name in self.names():
            with self.subTest(name):
                self.open(name)
                self.browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
                self.assertEqual(self.browser.console(), [])
                self.assertEqual(self.browser.requests(), [])

    def test_a_planted_request_is_refused_and_seen(self):
        page = self.page("planted")
        page.write_text(self.page("empty").read_text().replace(
            "<main", "<img alt='' src='http://127.0.0.1:9/x.png'><script>document.title = 'planted'</script><main"))
        self.open("planted")
        self.assertTrue(any("Content Security Policy" in line for line in self.browser.console()))
        self.assertNotEqual(self.browser.driver.title, "planted")
        page.unlink()

    def test_axe_finds_nothing_in_light_and_dark(self):
        for name in ["cells", "charts", "matrix", "fixed", "empty", "hostile"]:
            for scheme in ["light", "dark"]:
                with self.subTest(name, scheme=scheme):
                    self.browser.emulate(prefers_color_scheme=scheme)
                    self.open(name)
                    self.browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
                    self.assertEqual(self.browser.violations(), [])
        self.browser.emulate()

    def test_axe_finds_a_planted_fault(self):
        self.open("empty")
        self.browser.run("document.querySelector('main').append(document.createElement('input'))")
        self.assertNotEqual(self.browser.violations(), [])

    def test_charts_have_the_numbers_of_the_record(self):
        self.open("charts")
        norms = self.chart("Gradient norm")
        self.assertEqual([line["label"] for line in norms["lines"]], ["rank 0", "rank 1", "rank 2"])
        for rank, line in enumerate(norms["lines"]):
            self.assertEqual(line["steps"], list(range(1, 41)))
            for step, place in zip(line["steps"], line["places"]):
                if (rank, step) == (2, 10):
                    self.assertIsNone(place)
                elif (rank, step) == (1, 20):
                    self.assertGreater(place, 1.06)  # infinite: at the top
                    self.assertEqual(line["texts"][step - 1], "inf")
                else:
                    self.assertAlmostEqual(place, 1 + step / 1000 + rank / 100, places=12)

    def test_drift_is_on_a_logarithmic_axis_with_zero_as_zero(self):
        self.open("charts")
        drift, estimate = self.chart("Drift")["lines"]
        self.assertEqual(drift["texts"][0], "0")
        self.assertLess(drift["places"][0], min(place for place in drift["places"][1:] if place is not None))
        for step in range(2, 41):
            if step != 30:
                self.assertAlmostEqual(drift["places"][step - 1], math.log10(step / 1e6), places=9)
        self.assertIsNone(drift["places"][29])
        self.assertEqual(estimate["texts"][29], "~0.25")
        self.assertAlmostEqual(estimate["places"][29], math.log10(0.25))

    def test_hover_and_keys_show_the_values(self):
        self.open("charts")
        said = self.browser.run("""
            const {figure} = window.lockstepCharts[0];
            const box = figure.querySelector(".canvas");
            box.focus();
            for (const key of ["ArrowRight", "ArrowRight", "End", "ArrowLeft"]) {
              box.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
            }
            return figure.querySelector(".read-out").textContent;""")
        self.assertEqual(said, "step 39. rank 0: 1.039; rank 1: 1.049; rank 2: 1.059")
        shown = self.browser.run("""
            const {chart} = window.lockstepCharts[0];
            const point = chart.getDatasetMeta(1).data[4];
            const place = chart.canvas.getBoundingClientRect();
            chart.canvas.dispatchEvent(new MouseEvent("mousemove", {
              clientX: place.left + point.x, clientY: place.top + point.y, bubbles: true}));
            return new Promise((done) => setTimeout(() => done(
              [...chart.tooltip.title, ...chart.tooltip.body.map((part) => part.lines[0])]), 100));""")
        self.assertEqual(shown, ["step 5", "rank 0: 1.005", "rank 1: 1.015", "rank 2: 1.025"])

    def test_one_differing_step_of_a_million_is_in_map_and_table(self):
        self.open("million")
        rows = self.browser.run("return [...document.querySelectorAll('.map tbody tr')].map((row) => row.innerText)")
        self.assertEqual(len(rows), 1)
        self.assertIn("layers.17.weight", rows[0])
        self.assertIn("637", rows[0])
        part = self.browser.run("""
            const part = document.querySelector("rect.differ").getBoundingClientRect();
            const strip = document.querySelector("rect.agree").getBoundingClientRect();
            return {width: part.width, at: (part.left + part.width / 2 - strip.left) / strip.width};""")
        self.assertGreater(part["width"], 1.5)
        self.assertAlmostEqual(part["at"], 0.6365, delta=0.005)

    def test_filters_show_the_rows_with_all_words(self):
        self.open("findings")
        rows, count = self.browser.filter(0, "layers.4321.weight")
        self.assertEqual((len(rows), count), (1, "1 of 10000 rows"))
        rows, count = self.browser.filter(0, "gradient layers.99.")
        self.assertEqual(count, "1 of 10000 rows")
        rows, count = self.browser.filter(0, "no such thing")
        self.assertEqual((rows, count), ([], "0 of 10000 rows"))
        rows, count = self.browser.filter(0, "")
        self.assertEqual((len(rows), count), (10000, "10000 rows"))

    def test_a_click_on_a_head_sorts_by_number_and_a_second_one_turns_it_around(self):
        self.open("findings")
        sort = """
            const place = document.querySelector("[data-filter]");
            const head = place.querySelectorAll("thead th")[0];
            head.querySelector("button").click();
            const texts = [...place.querySelector("tbody").rows].map((row) => row.cells[0].textContent);
            return [head.getAttribute("aria-sort"), texts.slice(0, 3), texts.length];"""
        self.assertEqual(self.browser.run(sort), ["ascending", ["1", "2", "3"], 10000])
        self.assertEqual(self.browser.run(sort), ["descending", ["10000", "9999", "9998"], 10000])

    def test_a_key_is_copied_or_selected(self):
        self.open("findings")
        button = "document.querySelector('code.copied + button.copy')"
        key = self.browser.run("return %s.previousElementSibling.textContent" % button)
        self.browser.run(button + ".click()")
        for _ in range(50):
            text = self.browser.run("return %s.textContent" % button)
            if text != "Copy":
                break
            time.sleep(0.1)
        self.assertIn(text, ("Copied", "Selected"))
        if text == "Selected":
            self.assertEqual(self.browser.run("return getSelection().toString()"), key)

    def test_names_are_never_markup(self):
        for name in ["hostile", "nasty", "diff"]:
            self.open(name)
            self.browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            self.assertNotEqual(self.browser.driver.title, "planted")
            self.assertEqual(self.browser.run("return document.querySelectorAll('img, [onmouseover]').length"), 0)
        self.assertIn("document.title='planted'", self.browser.run("return document.body.textContent"))

    def test_large_pages_are_small(self):
        for name in ["big", "wide", "million", "findings"]:
            with self.subTest(name):
                seconds = self.open(name)
                size = self.page(name).stat().st_size
                elements = self.browser.run("return document.getElementsByTagName('*').length")
                print("%s: %.2f MB, %d elements, %.2f s" % (name, size / 1e6, elements, seconds))
                self.assertLess(size, MOST_BYTES)
                self.assertLess(elements, MOST_ELEMENTS)

    def test_every_rank_of_the_large_page_has_its_line(self):
        self.open("big")
        norms = self.chart("Gradient norm")
        self.assertEqual(len(norms["lines"]), 64)
        self.assertAlmostEqual(norms["lines"][63]["places"][999], 1 + 1 + 0.63, places=9)

    def test_nothing_is_wider_than_a_phone(self):
        self.browser.as_phone()
        for name in ["cells", "charts", "matrix", "wide", "hostile", "fixed"]:
            with self.subTest(name):
                self.open(name)
                self.browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
                self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 360)
        self.browser.as_desktop()

    def test_the_first_mismatch_is_marked_and_in_view(self):
        self.open("charts")
        text, is_shown = self.browser.run("""
            const cell = document.querySelector("td.wrong.marked");
            const place = cell.closest(".scroll").getBoundingClientRect(), own = cell.getBoundingClientRect();
            return [cell.textContent, own.left >= place.left && own.right <= place.right];""")
        self.assertEqual(text, "never called it")
        self.assertTrue(is_shown)

    def test_a_link_to_a_finding_opens_its_cell(self):
        self.open("cells")
        link = "#findings a[href^='#finding-']"
        self.browser.run("document.querySelectorAll('details').forEach((one) => { one.open = false; })")
        self.browser.run("document.querySelector(arguments[0]).click()", link)
        self.browser.run("return new Promise((done) => setTimeout(done, 100))")
        self.assertTrue(self.browser.run(
            "return document.querySelector(document.querySelector(arguments[0]).hash).offsetParent !== null", link))

    def test_charts_are_repainted_in_the_dark(self):
        self.browser.emulate(prefers_color_scheme="light")
        self.open("charts")
        colour = "return window.lockstepCharts[0].chart.data.datasets[0].borderColor"
        light = self.browser.run(colour)
        self.browser.emulate(prefers_color_scheme="dark")
        self.browser.run("return new Promise((done) => setTimeout(done, 100))")
        self.assertNotEqual(self.browser.run(colour), light)
        self.browser.emulate()

    def test_paper_shows_every_cell_and_its_charts(self):
        self.open("cells")
        closed = "return document.querySelectorAll('details.cell:not([open])').length"
        before = self.browser.run(closed)
        self.assertGreater(before, 0)
        self.browser.run("dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(self.browser.run(closed), 0)
        self.assertEqual(self.browser.run("return document.querySelectorAll('details.cell figure:not([data-drawn])')"
                                          ".length"), 0)
        self.browser.run("dispatchEvent(new Event('afterprint'))")
        self.assertEqual(self.browser.run(closed), before)

    def test_all_is_there_without_script(self):
        text = self.page("charts").read_text()
        self.assertIn("<td>1.039<td>1.049<td>1.059", text)
        self.assertIn("never called it", text)

    def test_tidy_accepts_the_markup(self):
        tidy = shutil.which("tidy")
        if not tidy:
            self.skipTest("there is no tidy")
        for name in self.names():
            with self.subTest(name):
                found = subprocess.run([tidy, "-errors", "-quiet", str(self.page(name))], capture_output=True,
                                       text=True, errors="replace")
                self.assertEqual(found.stderr, "")


if __name__ == "__main__":
    WRITE_PAGES = sys.argv.pop(1)
    unittest.main()
