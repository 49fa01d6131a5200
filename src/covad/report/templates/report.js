// Without this script the page has everything: tables are then not sorted by a click on a heading.
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  for (const head of table.querySelectorAll("th[data-column]")) {
    const sort = () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      const key = (row) => row.cells[Number(head.dataset.column)].dataset.value ?? "";
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if ((x === "") !== (y === "")) return x === "" ? 1 : -1; // what is missing stays last
        const numbers = Number(x) - Number(y);
        return (up ? 1 : -1) * (Number.isNaN(numbers) ? x.localeCompare(y, undefined, { numeric: true }) : numbers);
      };
      for (const other of table.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
    };
    head.tabIndex = 0;
    head.classList.add("sorts");
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
  }
}
document.addEventListener("keydown", (event) => {
  const open = document.querySelector(".panel:target .close");
  if (event.key === "Escape" && open) open.click();
});
