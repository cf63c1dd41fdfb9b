// More rows than this are slow to lay out.
const SHOWN_MAX = 1000;
const zoom = document.getElementById('zoom'), chart = document.getElementById('chart');
zoom.hidden = false;
zoom.querySelector('input').oninput = event => {
  const box = chart.parentElement, middle = (box.scrollLeft + box.clientWidth / 2) / box.scrollWidth;
  chart.style.width = 100 * 2 ** event.target.value + '%';
  box.scrollLeft = middle * box.scrollWidth - box.clientWidth / 2;
};

const table = document.getElementById('urls'), body = table.tBodies[0], tools = document.getElementById('search');
const [search, outcome] = tools.querySelectorAll('input, select');
const filters = [...table.querySelectorAll('.filters td')].map(cell => cell.querySelector('input'));
let rows = [...body.rows].map(row => ({
  row, class: row.cells[0].className, text: row.textContent.toLowerCase(),
  cells: [...row.cells].map(cell => cell.textContent.toLowerCase()),
}));
const fits = ({ class: of, text, cells }) =>
  (!outcome.value || outcome.value === of)
  && search.value.toLowerCase().split(/\s+/).every(word => text.includes(word))
  && filters.every((filter, column) => !filter || cells[column].includes(filter.value.toLowerCase()));
const filter = () => {
  let count = 0;
  for (const each of rows) {
    const isShown = fits(each);
    count += isShown;
    each.row.hidden = !isShown || count > SHOWN_MAX;
  }
  const rest = count > SHOWN_MAX ? ', the first ' + SHOWN_MAX + ' shown' : '';
  tools.querySelector('output').textContent = count + ' of ' + rows.length + rest;
};
for (const input of [search, outcome, ...filters.filter(Boolean)]) input.oninput = filter;

// A click on a heading sorts by its column, and a second one the other way.
const value = ({ row }, column) => {
  const cell = row.cells[column];
  return 'n' in cell.dataset ? Number(cell.dataset.n) : cell.textContent;
};
const compare = (one, other) =>
  typeof one === typeof other ? (one < other ? -1 : one > other ? 1 : 0) : typeof one === 'number' ? -1 : 1;
[...table.tHead.rows[0].cells].forEach((heading, column, headings) => {
  const button = document.createElement('button');
  button.textContent = heading.textContent;
  heading.replaceChildren(button);
  button.onclick = () => {
    const sign = heading.ariaSort === 'ascending' ? -1 : 1;
    headings.forEach(other => { other.ariaSort = null; });
    heading.ariaSort = sign > 0 ? 'ascending' : 'descending';
    rows = rows.toSorted((one, other) => sign * compare(value(one, column), value(other, column)));
    body.append(...rows.map(({ row }) => row));
    filter();
  };
});

// A figure of what failed shows its rows.
for (const figure of document.querySelectorAll('[data-class]')) {
  figure.onclick = () => { outcome.value = figure.dataset.class; filter(); };
}
tools.hidden = table.querySelector('.filters').hidden = false;
filter();
// All rows of a long table would be laid out before most are hidden.
table.hidden = false;
