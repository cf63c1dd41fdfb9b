// More rows than this are slow to lay out.
const SHOWN_MAX = 1000;
const zoom = document.getElementById('zoom'), chart = document.getElementById('chart');
zoom.hidden = false;
zoom.querySelector('input').oninput = event => {
  const box = chart.parentElement, middle = (box.scrollLeft + box.clientWidth / 2) / box.scrollWidth;
  chart.style.width = 100 * 2 ** event.target.value + '%';
  box.scrollLeft = middle * box.scrollWidth - box.clientWidth / 2;
};
const search = document.getElementById('search'), rows = [...document.querySelectorAll('#urls tbody tr')];
const texts = rows.map(row => row.textContent.toLowerCase());
search.hidden = false;
const filter = () => {
  const words = search.querySelector('input').value.toLowerCase().split(/\s+/);
  let count = 0;
  rows.forEach((row, index) => {
    const fits = words.every(word => texts[index].includes(word));
    count += fits;
    row.hidden = !fits || count > SHOWN_MAX;
  });
  const rest = count > SHOWN_MAX ? ', the first ' + SHOWN_MAX + ' shown' : '';
  search.querySelector('output').textContent = count + ' of ' + rows.length + rest;
};
search.querySelector('input').oninput = filter;
filter();
// All rows of a long table would be laid out before most are hidden.
document.getElementById('urls').hidden = false;
