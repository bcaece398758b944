"use strict";
const tip = document.getElementById("tip");
const root = document.documentElement;
// How near, in pixels, the pointer must be to a point.
const NEAR = 40;

document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

for (const plot of document.querySelectorAll("svg.plot")) {
  const points = [...plot.querySelectorAll(".series .dot")];
  for (const point of points) {
    const title = point.querySelector("title");
    point.dataset.tip = title.textContent;
    title.remove();
  }
  let near = null;
  const show = (point, x, y) => {
    if (near) near.classList.remove("near");
    near = point;
    tip.style.display = point ? "block" : "none";
    if (!point) return;
    point.classList.add("near");
    tip.textContent = point.dataset.tip;
    const left = Math.min(x + 14, innerWidth - tip.offsetWidth - 4);
    tip.style.left = left + "px";
    tip.style.top = Math.min(y + 14, innerHeight - tip.offsetHeight - 4) + "px";
  };
  plot.addEventListener("pointermove", (event) => {
    let best = null;
    let least = NEAR;
    for (const point of points) {
      if (point.parentNode.classList.contains("off")) continue;
      const box = point.getBoundingClientRect();
      const x = (box.left + box.right) / 2 - event.clientX;
      const y = (box.top + box.bottom) / 2 - event.clientY;
      const distance = Math.hypot(x, y);
      if (distance < least) [best, least] = [point, distance];
    }
    show(best, event.clientX, event.clientY);
  });
  plot.addEventListener("pointerleave", () => show(null));
  for (const legend of plot.querySelectorAll(".legend")) {
    legend.setAttribute("tabindex", "0");
    legend.setAttribute("role", "button");
    const toggle = () => {
      const off = legend.classList.toggle("off");
      for (const series of plot.querySelectorAll(`.series[data-s="${legend.dataset.s}"]`)) {
        series.classList.toggle("off", off);
      }
    };
    legend.addEventListener("click", toggle);
    legend.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      toggle();
    });
  }
}
