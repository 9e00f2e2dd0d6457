"use strict";
// Whole numbers in groups of three; what is saved and sorted is the number itself.
const value = (cell) => cell.dataset.v ?? cell.textContent.trim();
for (const cell of document.querySelectorAll("td.n")) {
  const text = cell.textContent.trim();
  if (/^\d{5,}$/.test(text)) {
    cell.dataset.v = text;
    cell.textContent = text.replace(/\B(?=(\d{3})+$)/g, "\u202f");
  } else if (/^-?\d+\.\d{5,}$/.test(text)) {
    cell.dataset.v = text;
    cell.textContent = String(Number(Number(text).toPrecision(5)));
  }
}
// Numbers before texts, what is not known last.
const order = (a, b) => {
  if (a === "" || b === "") return (a === "") - (b === "");
  const [x, y] = [Number(a), Number(b)];
  const [nx, ny] = [Number.isNaN(x), Number.isNaN(y)];
  if (nx !== ny) return nx - ny;
  return nx ? (a < b ? -1 : a > b ? 1 : 0) : x - y;
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
// The picture of the last calls: a part of its columns is drawn wider. The names stay where they are.
for (const plot of document.querySelectorAll("svg.calls")) {
  const inner = plot.querySelector("svg");
  const wide = Number(inner.getAttribute("width"));
  const numbers = (one, name) => (one.getAttribute(name) ?? "").trim().split(" ").map(Number);
  const parts = [...inner.querySelectorAll("rect, text")].map((one) => [one, numbers(one, "x"), numbers(one, "width")[0]]);
  let [zoom, from] = [1, 0];
  const draw = () => {
    zoom = Math.min(40, Math.max(1, zoom));
    from = Math.min(wide - wide / zoom, Math.max(0, from));
    for (const [one, xs, width] of parts) {
      one.setAttribute("x", xs.map((x) => (x - from) * zoom).join(" "));
      if (one.tagName === "rect") one.setAttribute("width", width * zoom);
    }
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
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
  plot.addEventListener("click", () => plot.focus());
  plot.addEventListener("wheel", (event) => {
    if (document.activeElement !== plot) return;
    event.preventDefault();
    const place = inner.getBoundingClientRect();
    const part = (event.clientX - place.left) / place.width;
    change(event.deltaY < 0 ? 1.25 : .8, Math.min(1, Math.max(0, part)));
  }, { passive: false });
}
