"""The page in a real Chromium: by mouse, by keyboard alone, and on a phone."""

import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from experiments.serving.server import Server, Settings
from tests.experiments.serving.fake_export import CARD, LONGEST, TASKS, write_export

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not (CHROMIUM and DRIVER):
    pytest.skip("chromium and chromedriver are absent", allow_module_level=True)

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
PHONE, DESKTOP = (390, 844), (1200, 900)


class Page:
    """The page of a server in a browser, by what a user sees of it."""

    def __init__(self, browser, url):
        self.browser = browser
        browser.get(url)
        self.until(lambda: browser.find_elements(By.CSS_SELECTOR, "body[data-ready]"))

    def until(self, condition):
        return WebDriverWait(self.browser, 20).until(lambda _: condition())

    def __getitem__(self, name):
        return self.browser.find_element(By.ID, name)

    def ask(self, text, task=None):
        """Types and asks by Enter; returns the answer."""
        if task is not None:
            Select(self["task"]).select_by_value(task)
        self["text"].clear()
        self["text"].send_keys(text + Keys.ENTER)
        return self.answered()

    def write(self, text):
        """Pastes a text, which typing would take long for."""
        script = "arguments[0].value = arguments[1]"
        self.browser.execute_script(script, self["text"], text)

    def answered(self):
        self.until(lambda: self["answer"].get_attribute("aria-busy") == "false")
        return self["output"].text

    def focused(self):
        return self.browser.switch_to.active_element.get_attribute("id")

    def errors(self):
        return [line["message"] for line in self.browser.get_log("browser")]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=DRIVER)
    made = webdriver.Chrome(options=options, service=service)
    yield made
    made.quit()


@pytest.fixture
def page(browser, server):
    resize(browser, DESKTOP)
    made = Page(browser, server.url)
    yield made
    assert made.errors() == []


def resize(browser, size):
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1}
    metrics["mobile"] = size == PHONE
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def test_an_example_is_chosen_and_answered(page):
    assert page["model"].text == "fake"
    assert [option.text for option in Select(page["task"]).options] == TASKS
    Select(page["task"]).select_by_value("nano/three")
    assert page["scores"].text == "accuracy 91.3"
    # What a card says is text, never markup.
    Select(page["example"]).select_by_visible_text("<b>the second</b> of nano/three")
    page["ask"].click()
    assert page.answered() == "v1|nano/three:<b>the second</b> of nano/three"
    assert page["target"].text == "The example's own answer: no"
    assert " ms" in page["facts"].text and "score" in page["facts"].text
    rows = page["bars"].find_elements(By.TAG_NAME, "li")
    length = len("<b>the second</b> of nano/three")
    first = length % 8 / 8
    shares = [first, 1 - first, 0]
    assert [row.text.split("\n") for row in rows] == [
        [label, f"{100 * share:.1f} %"]
        for label, share in zip(["red", "green", "blue"], shares, strict=True)
    ]
    tracks = page["bars"].find_elements(By.CLASS_NAME, "track")
    fills = page["bars"].find_elements(By.CLASS_NAME, "fill")
    for track, fill, share in zip(tracks, fills, shares, strict=True):
        assert fill.size["width"] == pytest.approx(track.size["width"] * share, abs=2)
    best = page["bars"].find_element(By.CLASS_NAME, "best").text
    assert best.startswith("red" if first > 0.5 else "green")


def test_a_task_without_labels_has_no_bars(page):
    assert page.ask("some text", "nano/yes_no") == "v1|nano/yes_no:some text"
    assert page["bars"].is_displayed()
    assert page.ask("some text", "nano/free") == "v1|nano/free:some text"
    assert not page["bars"].is_displayed()


def test_a_text_that_is_too_long_is_noticed(page):
    page.ask("short", "nano/free")
    assert not page["trimmed"].is_displayed()
    page.write("x" * (LONGEST + 1))
    page["ask"].click()
    page.until(lambda: page["trimmed"].is_displayed())
    assert "its end was dropped" in page["trimmed"].text


def test_all_tasks_answer_side_by_side(page):
    Select(page["task"]).select_by_value("nano/three")
    page["text"].send_keys("ab")
    page["all"].click()
    page.until(lambda: page["others-card"].is_displayed())
    items = page["others"].find_elements(By.TAG_NAME, "li")
    assert [item.text.split("\n") for item in items] == [
        ["nano/yes_no", "v1|nano/yes_no:ab", "no 75.0 %"],
        ["nano/three", "v1|nano/three:ab", "green 75.0 %"],
        ["nano/free", "v1|nano/free:ab"],
        ["nano/slow", "v1|nano/slow:ab"],
    ]
    (chosen,) = page["others"].find_elements(By.CLASS_NAME, "chosen")
    assert chosen.text.startswith("nano/three")
    assert items[0].location["y"] == items[1].location["y"]


def test_the_keyboard_is_enough(page):
    active = webdriver.ActionChains(page.browser)
    assert page.focused() == "text"
    active.send_keys("one").key_down(Keys.SHIFT).send_keys(Keys.ENTER)
    active.key_up(Keys.SHIFT).send_keys("two").key_down(Keys.CONTROL)
    active.send_keys(Keys.ENTER).key_up(Keys.CONTROL).perform()
    assert page.answered() == "v1|nano/yes_no:one\ntwo"
    order = []
    for _ in range(2):
        page.browser.switch_to.active_element.send_keys(Keys.TAB)
        order.append(page.focused())
    assert order == ["ask", "all"]
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert page.browser.execute_script(outline) != "none"
    page.browser.switch_to.active_element.send_keys(Keys.ENTER)
    page.until(lambda: page["others-card"].is_displayed())
    page["task"].send_keys("nano/f")
    assert page["task"].get_attribute("value") == "nano/free"


def test_every_field_has_a_name_and_the_answer_is_announced(page):
    for name in ("task", "example", "text"):
        (label,) = page.browser.find_elements(By.CSS_SELECTOR, f"label[for={name}]")
        assert label.text == page[name].accessible_name != ""
    assert page["answer"].get_attribute("aria-live") == "polite"


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_it_fits_the_screen(page, size):
    resize(page.browser, size)
    page.write("word " * 100 + "x" * 300)
    page["ask"].click()
    page.answered()
    page["all"].click()
    page.until(lambda: page["others-card"].is_displayed())
    widths = page.browser.execute_script(
        "return [document.documentElement.scrollWidth, innerWidth]"
    )
    assert widths[0] <= widths[1] == size[0]
    form, answer = page["form"].rect, page["answer-title"].rect
    if size == PHONE:  # below each other
        assert answer["y"] > form["y"] + form["height"]
        assert page["ask"].rect["height"] >= 40
    else:
        assert answer["x"] > form["x"] + form["width"]


def test_an_error_is_shown_and_the_next_answer_replaces_it(page):
    add = "const o = new Option('no/such', 'no/such'); arguments[0].append(o)"
    page.browser.execute_script(add, page["task"])
    page.ask("a", "no/such")
    assert page["error"].text.startswith('task "no/such" is unknown, expected one of')
    assert page.ask("a", "nano/free") == "v1|nano/free:a"
    assert not page["error"].is_displayed()
    assert {"400" in refused for refused in page.errors()} == {True}


@pytest.fixture(params=["no card", "one task"])
def other(request, bare_export, tmp_path):
    """A server of an export without a card, and one of a single task."""
    folder = bare_export
    if request.param == "one task":
        folder = tmp_path / "one"
        write_export(folder, task=False, card={**CARD, "tasks": CARD["tasks"][:1]})
    settings = Settings(rest_port=0, grpc_port=0)
    with Server(folder, settings, say=lambda _: None) as server:
        yield request.param, server


def test_other_kinds_of_export(browser, other):
    kind, server = other
    page = Page(browser, server.url)
    assert not page["all"].is_displayed()
    if kind == "no card":
        page["task-name"].send_keys("nano/three")
        assert page["task-name"].accessible_name == "Task"
        assert page.ask("ab") == "v1|nano/three:ab"
        assert page["bars"].text.startswith("red")
    else:
        assert not page["task"].is_enabled()
        assert page.ask("ab") == "v1|nano/yes_no:ab"
        assert page["bars"].text.startswith("yes")
    assert page.errors() == []
