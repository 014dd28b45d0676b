// Adds charts and filters to a page that is complete without them. Charts are drawn from the tables
// below them, so both have the same numbers.
"use strict";
(() => {
  const charts = [];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const isDark = () =>
    matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches;

  // Neighbours in the golden angle differ, however many lines there are.
  const hue = (i) =>
    `hsl(${Math.round((212 + i * 137.508) % 360)} ${isDark() ? "75% 66%" : "70% 40%"})`;

  // "~0.003" is an estimate; "-" is no number.
  function numberOf(text) {
    const word = text.trim().replace(/^~/, "");
    if (word === "inf") return Infinity;
    if (word === "-inf") return -Infinity;
    return word === "" || word === "-" ? NaN : Number(word);
  }

  function readTable(table) {
    const heads = [...table.tHead.rows[0].cells];
    const rows = [...table.tBodies[0].rows];
    const steps = rows.map((row) => Number(row.cells[0].textContent));
    const columns = [];
    heads.forEach((head, i) => {
      if (!head.dataset.plot) return;
      const texts = rows.map((row) => row.cells[i].textContent.trim());
      columns.push({
        name: head.textContent, plot: head.dataset.plot, texts, values: texts.map(numberOf)
      });
    });
    return {steps, columns};
  }

  // Where values are on the axis. On a logarithmic one, zero is one decade below the smallest value.
  function scaleOf(axis, columns) {
    let low = Infinity, high = 0, least = Infinity, most = -Infinity, hasZero = false;
    for (const column of columns) {
      for (const value of column.values) {
        if (!Number.isFinite(value)) continue;
        least = Math.min(least, value);
        most = Math.max(most, value);
        if (value === 0) hasZero = true;
        if (value > 0) { low = Math.min(low, value); high = Math.max(high, value); }
      }
    }
    const isLog = least >= 0 && high > 0 && (axis === "log" || (axis === "range" && high / low > 1000));
    if (!isLog) {
      const pad = most > least ? (most - least) / 20 : Math.abs(most) / 20 || 1;
      const top = most + pad;
      const min = axis === "log" && least >= 0 ? 0 : undefined;
      return {isLog, at: (value) => (value === Infinity ? top : value), min, max: undefined};
    }
    const bottom = Math.floor(Math.log10(low));
    const top = Math.max(Math.ceil(Math.log10(high)), bottom + 1);
    return {
      isLog, bottom, hasZero, min: hasZero ? bottom - 1 : bottom, max: top,
      at: (value) => (value === 0 ? bottom - 1 : value === Infinity ? top : value > 0 ? Math.log10(value) : NaN),
      tick: (value) => (hasZero && value === bottom - 1 ? "0" : Number.isInteger(value) ? `1e${value}` : "")
    };
  }

  function dataSets(data, scale) {
    let line = 0;
    return data.columns.map((column) => {
      const isEdge = column.plot === "edge", isLimit = column.plot === "limit";
      const paint = isLimit || isEdge ? colour("--soft") : hue(line++);
      const isAlone = (i) => Number.isNaN(column.values[i - 1] ?? NaN) && Number.isNaN(column.values[i + 1] ?? NaN);
      return {
        label: column.name, paint, texts: column.texts,
        data: column.values.map((value, i) => ({x: data.steps[i], y: scale.at(value)})),
        borderColor: paint, backgroundColor: paint, borderWidth: isEdge ? 1 : 1.75,
        borderDash: isLimit ? [6, 4] : isEdge ? [2, 3] : [],
        // A value between two gaps has no line.
        pointRadius: column.values.length < 40 ? 2.5 : column.values.map((_, i) => (isAlone(i) ? 2.5 : 0)),
        pointStyle: column.texts.map((text) => (text.startsWith("~") ? "rectRot" : text.includes("inf") ? "triangle" : "circle")),
        pointHitRadius: 8, pointHoverRadius: 5, spanGaps: false
      };
    });
  }

  function optionsOf(figure, data, scale) {
    const ink = colour("--soft"), grid = colour("--line"), isMany = data.columns.length > 10;
    return {
      animation: false, responsive: true, maintainAspectRatio: false, parsing: false, normalized: true,
      interaction: {mode: isMany ? "nearest" : "index", intersect: false, axis: isMany ? "xy" : "x"},
      scales: {
        x: {
          type: "linear", title: {display: true, text: "step", color: ink},
          ticks: {color: ink, precision: 0, maxRotation: 0, callback: String}, grid: {color: grid}
        },
        y: {
          type: "linear", min: scale.min, max: scale.max,
          title: {display: figure.dataset.unit !== "", text: figure.dataset.unit, color: ink},
          ticks: scale.isLog ? {color: ink, stepSize: 1, autoSkip: true, callback: scale.tick} : {color: ink},
          grid: {color: grid}
        }
      },
      plugins: {
        legend: {display: !isMany, labels: {color: colour("--ink"), boxWidth: 18, boxHeight: 2}},
        tooltip: {
          callbacks: {
            title: (items) => `step ${items[0].parsed.x}`,
            label: (item) => `${item.dataset.label}: ${item.dataset.texts[item.dataIndex]}`
          }
        }
      }
    };
  }

  // Arrow keys move over the steps; the values are read out.
  function addKeys(chart, box, readOut, data) {
    let at = -1;
    box.addEventListener("keydown", (event) => {
      const moves = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: data.steps.length - 1};
      if (!(event.key in moves)) return;
      event.preventDefault();
      at = Math.max(0, Math.min(data.steps.length - 1, moves[event.key]));
      const shown = data.columns.map((_, set) => ({datasetIndex: set, index: at})).slice(0, 10);
      chart.setActiveElements(shown);
      chart.update("none");
      const words = data.columns.slice(0, 10).map((column) => `${column.name}: ${column.texts[at]}`);
      readOut.textContent = `step ${data.steps[at]}. ${words.join("; ")}`;
    });
  }

  function draw(figure) {
    const data = readTable(figure.querySelector("table"));
    if (data.columns.length === 0 || data.steps.length === 0) return;
    const scale = scaleOf(figure.dataset.axis, data.columns);
    const box = figure.querySelector(".canvas");
    const canvas = document.createElement("canvas");
    const caption = figure.querySelector("figcaption").textContent;
    box.setAttribute("aria-label", `Chart: ${caption}. Arrow keys read out its values. The numbers are in the table below.`);
    box.append(canvas);
    box.classList.remove("waits");
    const chart = new Chart(canvas, {
      type: "line", data: {datasets: dataSets(data, scale)}, options: optionsOf(figure, data, scale)
    });
    addKeys(chart, box, figure.querySelector(".read-out"), data);
    charts.push({chart, figure, data, scale});
  }

  function prepare(figure) {
    const box = document.createElement("div");
    box.className = "canvas waits";
    box.tabIndex = 0;
    box.setAttribute("role", "application");
    box.setAttribute("aria-label", "Chart");
    const readOut = document.createElement("p");
    readOut.className = "read-out";
    readOut.setAttribute("role", "status");
    figure.querySelector("figcaption").after(box, readOut);
  }

  function isShown(figure) {
    for (let part = figure.parentElement; part; part = part.parentElement) {
      if (part.tagName === "DETAILS" && !part.open) return false;
    }
    return true;
  }

  function drawShown() {
    for (const figure of document.querySelectorAll("figure.chart:not([data-drawn])")) {
      if (!isShown(figure)) continue;
      figure.dataset.drawn = "";
      draw(figure);
    }
  }

  function repaint() {
    for (const one of charts) {
      one.chart.data.datasets = dataSets(one.data, one.scale);
      one.chart.options = optionsOf(one.figure, one.data, one.scale);
      one.chart.update("none");
    }
  }

  function addFilter(place, number) {
    const table = place.querySelector("table");
    const rows = [...table.tBodies[0].rows];
    if (rows.length < 2) return;
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const bar = document.createElement("div");
    bar.className = "filter";
    const label = document.createElement("label");
    label.htmlFor = `filter-${number}`;
    label.textContent = "Filter";
    const field = document.createElement("input");
    field.id = label.htmlFor;
    field.type = "search";
    field.autocomplete = "off";
    field.placeholder = "every word must occur";
    const count = document.createElement("span");
    count.setAttribute("role", "status");
    const filter = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, i) => {
        const fits = words.every((word) => texts[i].includes(word));
        if (row.hidden === fits) row.hidden = !fits;
        if (fits) ++shown;
      });
      count.textContent = words.length === 0 ? `${rows.length} rows` : `${shown} of ${rows.length} rows`;
    };
    field.addEventListener("input", filter);
    bar.append(label, field, count);
    place.prepend(bar);
    filter();
  }

  // By a column of a table: numbers by value, a click more in the other direction.
  function addSorting(place) {
    const table = place.querySelector("table");
    const body = table.tBodies[0];
    if (body.rows.length < 2) return;
    [...table.tHead.rows[0].cells].forEach((head, i) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const isUp = head.getAttribute("aria-sort") !== "ascending";
        const keyed = [...body.rows].map((row) => {
          const text = row.cells[i].textContent.trim();
          return {row, text, number: numberOf(text)};
        });
        keyed.sort((a, b) => {
          const [isA, isB] = [!Number.isNaN(a.number), !Number.isNaN(b.number)];
          if (isA !== isB) return isA ? -1 : 1;  // words behind numbers, whatever the direction
          const order = isA ? a.number - b.number : a.text.localeCompare(b.text, "en", {numeric: true});
          return isUp ? order : -order;
        });
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
        body.append(...keyed.map(({row}) => row));
      });
    });
  }

  // Next to a command or key that the reader will want elsewhere.
  function addCopying(code) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {  // the page may not write there: the reader can
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
    });
    code.after(" ", button);
  }

  // A link to a part inside of closed details opens them.
  function openTarget() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let part = target; part; part = part.parentElement) {
      if (part.tagName === "DETAILS") part.open = true;
    }
    if (target) target.scrollIntoView();
  }

  // The first mismatch is in the middle of its lanes.
  function showMarked() {
    for (const head of document.querySelectorAll(".lanes th.marked")) {
      const place = head.closest(".scroll");
      place.scrollLeft = head.offsetLeft - (place.clientWidth - head.offsetWidth) / 2;
    }
  }

  // On paper all cells are open; the long tables stay closed.
  let opened = [];
  function beginPrint() {
    opened = [...document.querySelectorAll("details.cell:not([open])")];
    for (const cell of opened) cell.open = true;
    drawShown();
    for (const {chart} of charts) chart.resize();
  }
  function endPrint() {
    for (const cell of opened) cell.open = false;
    opened = [];
    for (const {chart} of charts) chart.resize();
  }

  document.querySelectorAll("figure.chart").forEach(prepare);
  document.querySelectorAll("[data-filter]").forEach(addFilter);
  document.querySelectorAll("[data-filter]").forEach(addSorting);
  document.querySelectorAll("code.copied").forEach(addCopying);
  drawShown();
  showMarked();
  document.addEventListener("toggle", () => { drawShown(); showMarked(); }, true);
  addEventListener("hashchange", openTarget);
  addEventListener("beforeprint", beginPrint);
  addEventListener("afterprint", endPrint);
  if (location.hash) openTarget();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  matchMedia("print").addEventListener("change", repaint);
  // For tests, and for questions of the reader in the browser's console.
  window.lockstepCharts = charts;
})();
