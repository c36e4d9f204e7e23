// Makes each embedded page of the viewer as high as its content, and as light or dark as the site.

const site = document.body; // names its colours in data-md-color-scheme

for (const frame of document.querySelectorAll("iframe.viewer")) {
  frame.addEventListener("load", () => {
    const page = frame.contentDocument; // null if the site is opened from a file
    if (!page) return;
    const border = frame.offsetHeight - frame.clientHeight;
    const fit = () => {
      frame.style.height = `${Math.ceil(page.body.getBoundingClientRect().height) + border}px`;
    };
    const paint = () => {
      const dark = site.dataset.mdColorScheme === "slate";
      page.documentElement.style.colorScheme = dark ? "dark" : "light";
    };
    new ResizeObserver(fit).observe(page.body);
    new MutationObserver(paint).observe(site, { attributeFilter: ["data-md-color-scheme"] });
    paint();
  });
}
