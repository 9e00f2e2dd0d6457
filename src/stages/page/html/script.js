"use strict";
// Whole numbers that name nothing are shown in groups of three, as in plots; what is saved and sorted is the number itself.
const value = (cell) => cell.dataset.v ?? cell.textContent.trim();
const groups = (text) => text.replace(/\B(?=(\d{3})+$)/g, " ");
// Other numbers with three digits and a unit: shares as percent, times by the unit at the end of their column's name.
const three = (x) => {
  if (Math.abs(x) >= 100) return groups(String(Math.round(x)));
  const digits = x === 0 ? 0 : 2 - Math.floor(Math.log10(Math.abs(x)));
  return String(x.toFixed(Math.min(20, Math.max(0, digits)))).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
};
const percent = (x) => (x > 0 && x < 1e-4 ? "<0.01" : three(100 * x)) + " %";
const time = (s) => {
  const [size, unit] = [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]].find(([size]) => Math.abs(s) >= size) ?? [1, "s"];
  return `${three(s / size)} ${unit}`;
};
for (const table of document.querySelectorAll("table")) {
  const units = [...table.tHead.rows[0].cells].map((head) => ({ us: 1e-6, ms: 1e-3, s: 1 })[/_(us|ms|s)$/.exec(head.textContent)?.[1]]);
  for (const cell of table.querySelectorAll("td.n")) {
    const text = cell.textContent.trim();
    const [x, unit] = [Number(text), units[cell.cellIndex]];
    let shown = text;
    if (text === "" || Number.isNaN(x)) continue;
    if (cell.classList.contains("share")) shown = percent(x);
    else if (unit && x) {
      shown = time(x * unit);
      // Its cells have their own units.
      const head = table.tHead.rows[0].cells[cell.cellIndex];
      head.dataset.v ??= head.textContent;
      head.firstElementChild.textContent = head.dataset.v.replace(/_(us|ms|s)$/, "");
    }
    else if (/^\d{4,}$/.test(text)) shown = groups(text);
    else if (text.includes(".")) shown = three(x);
    if (shown === text) continue;
    cell.dataset.v = text;
    cell.title = text;
    cell.textContent = shown;
  }
}
// Numbers before texts, what is not known last; numbers within texts count, too: rank 2 is before rank 10. Words and sizes
// have their own order.
const natural = new Intl.Collator("en", { numeric: true });
const words = ["error", "warning", "note", "high", "medium", "low"];
const bytes = (text) => {
  const found = /^(<?)(?:>=)?(\d+)([KMG]?)B\b/.exec(text);
  return found ? found[2] * 1024 ** " KMG".indexOf(found[3] || " ") - (found[1] ? 1 : 0) : -1;
};
const order = (a, b) => {
  if (a === "" || b === "") return (a === "") - (b === "");
  for (const place of [(text) => words.indexOf(text), bytes]) {
    if (place(a) >= 0 && place(b) >= 0) return place(a) - place(b);
  }
  const [x, y] = [Number(a), Number(b)];
  const [nx, ny] = [Number.isNaN(x), Number.isNaN(y)];
  if (nx !== ny) return nx - ny;
  return nx ? natural.compare(a, b) : x - y;
};
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, at) => head.firstElementChild.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => {
      const [x, y] = [value(a.cells[at]), value(b.cells[at])];
      return x === "" || y === "" ? order(x, y) : (down ? order(y, x) : order(x, y));
    });
    table.tBodies[0].append(...rows);
  }));
}
// A plot that is wider than its place is scrolled, also by keys.
const seen = new ResizeObserver((all) => {
  for (const { target } of all) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
for (const figure of document.querySelectorAll("figure")) seen.observe(figure);
for (const button of document.querySelectorAll("button.csv")) {
  button.addEventListener("click", () => {
    const table = button.parentElement.querySelector("table");
    const field = (text) => /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    const lines = [...table.rows].map((row) => [...row.cells].map((cell) => field(value(cell))).join(","));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    link.download = `${button.dataset.name}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
}
// The picture of the last calls: a part of its columns is drawn wider. The names stay where they are. A narrow window
// begins at the call that others wait in.
for (const plot of document.querySelectorAll("svg.calls")) {
  const inner = plot.querySelector("svg");
  const wide = Number(inner.getAttribute("width"));
  const numbers = (one, name) => (one.getAttribute(name) ?? "").trim().split(" ").map(Number);
  const parts = [...inner.querySelectorAll("rect, text")].map((one) => [one, numbers(one, "x"), numbers(one, "width")[0]]);
  const steps = parts.filter(([one]) => one.classList.contains("step"));
  let [zoom, from] = [1, 0];
  const draw = () => {
    zoom = Math.min(40, Math.max(1, zoom));
    from = Math.min(wide - wide / zoom, Math.max(0, from));
    for (const [one, xs, width] of parts) {
      one.setAttribute("x", xs.map((x) => (x - from) * zoom).join(" "));
      if (one.tagName === "rect") one.setAttribute("width", width * zoom);
    }
    // The step that the view begins in is named at its left edge; a name without room is hidden.
    steps.forEach(([one, [x]], at) => {
      const [left, next] = [Math.max(0, (x - from) * zoom), ((steps[at + 1]?.[1][0] ?? Infinity) - from) * zoom];
      one.setAttribute("x", left);
      one.setAttribute("visibility", next >= left + one.getComputedTextLength() + 8 ? "visible" : "hidden");
    });
  };
  // Zooms, and keeps what is at this part of the width.
  const change = (factor, part) => {
    const at = from + part * wide / zoom;
    zoom = Math.min(40, Math.max(1, zoom * factor));
    from = at - part * wide / zoom;
    draw();
  };
  const keys = {
    "+": () => change(1.5, .5), "=": () => change(1.5, .5), "-": () => change(1 / 1.5, .5),
    "0": () => { [zoom, from] = [1, 0]; draw(); },
    ArrowLeft: () => { from -= wide / zoom / 8; draw(); }, ArrowRight: () => { from += wide / zoom / 8; draw(); },
  };
  plot.addEventListener("keydown", (event) => {
    // Where all columns are shown, the arrows scroll a plot that is wider than the window.
    const scrolls = event.key.startsWith("Arrow") && zoom === 1;
    if (event.ctrlKey || event.metaKey || event.altKey || scrolls || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
  plot.addEventListener("click", () => plot.focus());
  plot.addEventListener("wheel", (event) => {
    // A sideways wheel does not zoom, and where all is shown, one that would show more scrolls the page.
    const far = event.deltaY * [1, 16, 400][event.deltaMode];
    if (document.activeElement !== plot || Math.abs(event.deltaX) >= Math.abs(far) || (far > 0 && zoom === 1)) return;
    event.preventDefault();
    const place = inner.getBoundingClientRect();
    const part = (event.clientX - place.left) / place.width;
    change(Math.exp(Math.min(.7, Math.max(-.7, far * -.002))), Math.min(1, Math.max(0, part)));
  }, { passive: false });
  // Names stay in sight when the plot is scrolled.
  const figure = plot.parentElement;
  const names = [...plot.children].filter((one) => one.tagName === "text");
  const ends = names.map((one) => [Number(one.getAttribute("x")), one.getComputedTextLength()]);
  const behind = document.createElementNS(plot.namespaceURI, "rect");
  behind.setAttribute("class", "paper");
  behind.setAttribute("width", 8 + Math.max(...ends.map(([, length]) => length)));
  behind.setAttribute("height", "100%");
  plot.append(behind, ...names);
  figure.addEventListener("scroll", () => {
    const shift = figure.scrollLeft * plot.viewBox.baseVal.width / plot.clientWidth;
    behind.setAttribute("x", shift);
    names.forEach((one, at) => one.setAttribute("x", Math.max(ends[at][0], shift + ends[at][1] + 4)));
  });
  const box = (inner.querySelector(".gone") ?? inner.querySelector(".unmet"))?.getBoundingClientRect();
  const view = figure.getBoundingClientRect();
  if (box) figure.scrollLeft += (box.left + box.right - view.left - view.right) / 2;
}
