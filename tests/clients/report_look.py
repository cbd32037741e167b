"""Looks at reports in a headless browser: report_look.py BROWSER FOLDER PAGE...

Each page is opened at two widths in two themes. It fails if the console shows an error, if the page
asks for anything, if two texts of a drawing overlap or leave it, if a drawing has no line with a
length, if a line has the colour of its ground, or if something is wider than the window and does not
scroll in a box of its own. The printed page must show what is folded on the screen.
"""

import os
import pathlib
import sys

from playwright.sync_api import sync_playwright

WIDTHS = (1280, 420)
THEMES = ("light", "dark")

# Returns a list of complaints. Everything folded is open when it runs.
LOOK = r"""
() => {
  const found = [];
  const complain = (what, element) => found.push(what + ': ' + element.outerHTML.slice(0, 160));
  const isShown = element => element.getClientRects().length > 0;
  for (const svg of document.querySelectorAll('svg')) {
    if (!isShown(svg)) { complain('a drawing is not shown', svg); continue; }
    const lines = [...svg.querySelectorAll('path, polyline')].filter(line => !line.matches('.grid, .axis'));
    if (!lines.some(line => line.getTotalLength() > 0)) complain('a drawing without a line', svg);
    for (const line of lines) {
      const style = getComputedStyle(line);
      const ground = getComputedStyle(document.body).backgroundColor;
      if (style.stroke === 'none' || style.stroke === ground) complain('a line without colour', line);
    }
    const box = svg.viewBox.baseVal;
    const texts = [...svg.querySelectorAll('text')].map(text => [text, text.getBBox()]);
    texts.forEach(([text, one], index) => {
      if (one.x < -0.5 || one.y < -0.5 || one.x + one.width > box.width + 0.5 || one.y + one.height > box.height + 0.5)
        complain('a text leaves its drawing', text);
      for (const [, two] of texts.slice(index + 1)) {
        const across = Math.min(one.x + one.width, two.x + two.width) - Math.max(one.x, two.x);
        const down = Math.min(one.y + one.height, two.y + two.height) - Math.max(one.y, two.y);
        if (across > 0.5 && down > 1.5) complain('two texts overlap', text);
      }
    });
  }
  const scrolls = element => {
    for (let at = element; at && at !== document.body; at = at.parentElement)
      if (/auto|scroll/.test(getComputedStyle(at).overflowX)) return true;
    return false;
  };
  const width = document.documentElement.clientWidth;
  for (const element of document.body.querySelectorAll('*')) {
    if (element.closest('svg, script') && element.tagName !== 'svg') continue;
    if (element.getBoundingClientRect().right > width + 1 && !scrolls(element)) complain('wider than the window', element);
  }
  if (document.documentElement.scrollWidth > width + 1) found.push('the page scrolls sideways');
  return found;
}
"""


def new_page(browser, width, theme, url, faults):
    """Opens a page whose errors and requests go to `faults`."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
    page.on("console", lambda line: faults.append("console: " + line.text) if line.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(f"error of a script: {error}"))
    page.on("request", lambda request: faults.append("a request: " + request.url) if request.url != url else None)
    page.goto(url)
    return page


def look(browser, path, width, theme, folder):
    """The complaints about one page at one width in one theme."""
    faults = []
    page = new_page(browser, width, theme, path.as_uri(), faults)
    name = f"{path.stem}-{width}-{theme}"
    page.screenshot(path=folder / f"{name}-folded.png", full_page=True)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    page.screenshot(path=folder / f"{name}.png", full_page=True)
    faults += page.evaluate(LOOK)
    page.close()
    return faults


def look_at_print(browser, path, folder):
    """The complaints about the printed page, with the dark theme on the screen."""
    faults = []
    page = new_page(browser, 1280, "dark", path.as_uri(), faults)
    page.emulate_media(media="print")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    hidden = page.evaluate("""() => [...document.querySelectorAll('details > :not(summary)')]
      .filter(one => !one.checkVisibility({contentVisibilityAuto: true})).length""")
    if hidden:
        faults.append(f"{hidden} folded parts are not printed")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    if ground != "rgb(255, 255, 255)":
        faults.append(f"the paper is {ground}")
    page.pdf(path=folder / f"{path.stem}.pdf", prefer_css_page_size=True, print_background=True)
    page.close()
    return faults


def main():
    program, folder, paths = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    passed = failed = 0
    flags = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags, chromium_sandbox=os.getuid() != 0)
        for path in (pathlib.Path(path).resolve() for path in paths):
            looks = [(f"{width} px, {theme}", lambda w=width, t=theme: look(browser, path, w, t, folder))
                     for width in WIDTHS for theme in THEMES]
            looks.append(("printed", lambda: look_at_print(browser, path, folder)))
            for what, run in looks:
                faults = run()
                print(("FAIL" if faults else "ok"), path.name, what)
                for fault in faults[:20]:
                    print("    " + fault)
                passed, failed = passed + (not faults), failed + bool(faults)
        browser.close()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
