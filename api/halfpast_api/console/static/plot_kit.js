/* What all plots share: colours, times, axes, the keyboard, a table for each.

   A plot is a function of the page's figures that gives

     {x, columns: [{name, values, shown?, colour, ...}], y, options}

   and `mount` draws it into its <figure>. It is drawn again when the reader's choice of
   light or dark changes, when the page is printed and when its width changes. */
"use strict";

const kit = (() => {
  const HEIGHTS = { screen: 240, paper: 160 };
  const FAMILY = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
  const mounted = [];
  let height = HEIGHTS.screen;

  /* Words */

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }

  function count(value) {
    return value == null ? "–" : value.toLocaleString("en-US", { maximumFractionDigits: 0 });
  }

  function percent(value) {
    if (value == null) return "–";
    const size = value * 100;
    if (size === 0 || size === 100) return `${size} %`;
    const rest = Math.min(size, 100 - size);
    if (rest < 0.0001) return size > 50 ? "> 99.9999 %" : "< 0.0001 %";
    const digits = Math.min(Math.max(Math.ceil(-Math.log10(rest)) + 1, rest < 10 ? 2 : 1), 4);
    const scale = 10 ** digits;
    const cut = size > 50 ? Math.floor(size * scale) : Math.ceil(size * scale);
    return `${(cut / scale).toFixed(digits)} %`;
  }

  function duration(ms) {
    if (ms == null) return "–";
    for (const [size, name] of [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]]) {
      if (ms >= size) return `${Number((ms / size).toPrecision(2))} ${name}`;
    }
    return `${Math.round(ms)} ms`;
  }

  const two = (number) => String(number).padStart(2, "0");

  /* The parts of a moment: in UTC, or in the reader's zone if `kit.local` says so. */
  function parts(seconds) {
    const at = new Date(seconds * 1000);
    const moved = kit.local ? new Date(at.getTime() - at.getTimezoneOffset() * 60000) : at;
    return { year: moved.getUTCFullYear(), month: moved.getUTCMonth(), day: moved.getUTCDate(), hour: moved.getUTCHours(), minute: moved.getUTCMinutes(), second: moved.getUTCSeconds() };
  }

  function instant(seconds) {
    const at = parts(seconds);
    return `${at.year}-${two(at.month + 1)}-${two(at.day)} ${clock(at, at.second !== 0)}`;
  }

  function clock(at, withSeconds) {
    const time = `${two(at.hour)}:${two(at.minute)}`;
    return withSeconds ? `${time}:${two(at.second)}` : time;
  }

  const zoneName = () => (kit.local ? "time" : "UTC");

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  /* Axes */

  const font = () => `${height === HEIGHTS.paper ? 9 : 12}px ${FAMILY}`;

  function axis(more) {
    const line = { stroke: colour("line"), width: 1 };
    return { stroke: colour("soft"), font: font(), grid: line, ticks: { ...line, size: 4 }, ...more };
  }

  function timeAxis() {
    const months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
    return axis({
      space: 64,
      size: (plot, values) => (values && values.some((it) => it && it.includes("\n")) ? 46 : 30),
      values: (plot, splits, _axis, _space, step) => {
        let last = "";
        return splits.map((seconds) => {
          const at = parts(seconds);
          const day = `${at.day} ${months[at.month]}`;
          const time = clock(at, step < 60);
          const text = step >= 86400 ? day : last === day ? time : `${time}\n${day}`;
          last = day;
          return text;
        });
      },
    });
  }

  /* Grid lines of a log scale: one for each power of ten. */
  function powers(plot, axisNumber, low, high) {
    const found = [];
    for (let power = Math.ceil(Math.log10(low)); 10 ** power <= high * 1.001; power += 1) found.push(10 ** power);
    return found;
  }

  const scales = {
    count: () => ({ range: (plot, low, high) => [0, Math.max(4, high * 1.06)] }),
    share: () => ({ range: (plot, low, high) => [0, high > 0 ? Math.min(1, high * 1.15) : 0.01] }),
    log: () => ({
      distr: 3,
      range: (plot, low, high) => [0.5, 10 ** Math.ceil(Math.log10(Math.max(10, high * 1.05)))],
    }),
  };

  /* Drawing */

  function mount(figure, make, zoom) {
    const place = { figure, make, zoom, plot: null, spec: null };
    mounted.push(place);
    draw(place);
    new ResizeObserver(() => {
      const width = widthOf(place);
      if (place.plot && place.plot.width !== width) place.plot.setSize({ width, height });
    }).observe(figure);
    const table = figure.querySelector(".as-table");
    table.addEventListener("toggle", () => table.open && fillTable(place, table), { once: true });
  }

  const widthOf = (place) => Math.max(240, place.figure.querySelector(".stage").clientWidth);

  function draw(place) {
    const stage = place.figure.querySelector(".stage");
    if (place.plot) place.plot.destroy();
    place.plot = null;
    stage.replaceChildren();
    const spec = (place.spec = place.make());
    if (!spec) {
      stage.append(element("p", { class: "nothing" }, "Nothing to show here."));
      return;
    }
    const shown = [spec.x, ...spec.columns.map((it) => it.shown || it.values)];
    place.plot = new uPlot(optionsOf(place, spec), shown, stage);
    if (spec.readout) stage.append(spec.readout);
    listen(place, stage);
  }

  function optionsOf(place, spec) {
    const isTime = !spec.xScale;
    const goes = isTime && place.zoom;
    const options = {
      width: widthOf(place),
      height,
      padding: [8, 26, 0, 0],
      tzDate: (seconds) => (kit.local ? new Date(seconds * 1000) : uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC")),
      scales: { x: spec.xScale || { range: (...given) => place.spec.span(...given) }, y: spec.y.scale },
      axes: [spec.xAxis || timeAxis(), axis({ size: 58, values: spec.y.values, ...spec.y.axis })],
      cursor: {
        sync: isTime ? { key: "audits", setSeries: false } : undefined,
        drag: { x: isTime, y: false, setScale: !goes },
        points: { size: 6 },
        y: false,
        ...spec.cursor,
      },
      legend: { live: true, show: spec.columns.some((it) => !it.hidden), ...spec.legend },
      series: [
        { label: spec.xLabel || zoneName(), value: (plot, value) => (value == null ? "" : (spec.xText || instant)(value)) },
        ...spec.columns.map((it, column) => seriesOf(place, spec, it, column)),
      ],
      hooks: { ...spec.hooks },
    };
    if (goes) options.hooks.setSelect = [(plot) => zoomInto(plot, spec, place.zoom)];
    return options;
  }

  function seriesOf(place, spec, it, column) {
    return {
      label: it.name,
      stroke: it.colour,
      fill: it.fill,
      width: it.width == null ? 1.6 : it.width,
      dash: it.dash,
      paths: it.paths,
      points: { show: false, ...it.points },
      spanGaps: false,
      value: (plot, value, number, at) => (at == null ? "" : spec.y.text(place.spec.columns[column].values[at])),
      ...it.series,
    };
  }

  /* All plots hear of a selection; the first one acts on it. */
  let isLeaving = false;
  window.addEventListener("pageshow", () => (isLeaving = false));

  function zoomInto(plot, spec, zoom) {
    const { left, width } = plot.select;
    if (width < 6 || isLeaving) return;
    isLeaving = true;
    const iso = (seconds) => new Date(Math.round(seconds) * 1000).toISOString();
    const url = new URL(zoom, location.href);
    url.searchParams.set("from", iso(plot.posToVal(left, "x")));
    url.searchParams.set("to", iso(plot.posToVal(left + width, "x")));
    location.assign(url);
  }

  /* The keyboard: arrows walk from step to step, and what is there is told. */

  function listen(place, stage) {
    const over = stage.querySelector(".u-wrap");
    over.setAttribute("tabindex", "0");
    over.setAttribute("role", "group");
    over.setAttribute("aria-label", `${place.figure.querySelector("h3").textContent}; arrow keys read the values`);
    over.addEventListener("keydown", (event) => {
      const last = place.spec.x.length - 1;
      const at = place.plot.cursor.idx;
      const moves = { ArrowLeft: at == null ? last : at - 1, ArrowRight: at == null ? 0 : at + 1, Home: 0, End: last };
      if (!(event.key in moves)) return;
      event.preventDefault();
      const to = Math.min(Math.max(moves[event.key], 0), last);
      const left = place.plot.valToPos(place.spec.x[to], "x");
      place.plot.setCursor({ left, top: 10 });
      tell(place, to);
    });
  }

  function tell(place, at) {
    const { spec, figure } = place;
    const said = spec.tell ? spec.tell(at) : spec.columns.filter((it) => !it.hidden).map((it) => `${it.name} ${spec.y.text(it.values[at])}`).join(", ");
    figure.querySelector("[aria-live]").textContent = `${(spec.xText || instant)(spec.x[at])}: ${said}`;
  }

  /* The same as a table, made when it is opened */

  function fillTable(place, details) {
    const { spec } = place;
    if (!spec) return;
    const columns = spec.table || spec.columns.filter((it) => !it.hidden);
    const head = element("tr", {}, element("th", { scope: "col" }, spec.xLabel || zoneName()));
    for (const it of columns) head.append(element("th", { scope: "col", class: "n" }, it.name));
    const body = element("tbody");
    spec.x.forEach((x, at) => {
      if (columns.every((it) => it.values[at] == null)) return;
      const row = element("tr", {}, element("th", { scope: "row" }, (spec.xText || instant)(x)));
      for (const it of columns) row.append(element("td", { class: "n" }, spec.y.text(it.values[at])));
      body.append(row);
    });
    const name = place.figure.querySelector("h3").textContent;
    const scroll = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name });
    scroll.append(element("table", {}, element("thead", {}, head), body));
    details.append(scroll);
  }

  /* Light, dark and paper */

  function redraw() {
    mounted.forEach(draw);
  }

  /* Other figures for the same plots: one that is there keeps its place and cursor. */
  function refresh() {
    for (const place of mounted) {
      const spec = place.make();
      const had = place.spec;
      if (!spec || !had || !place.plot || spec.columns.length !== had.columns.length) {
        if (spec || had) draw(place);
        continue;
      }
      place.spec = spec;
      place.plot.setData([spec.x, ...spec.columns.map((it) => it.shown || it.values)]);
    }
  }

  function onPaper(isPaper) {
    height = isPaper ? HEIGHTS.paper : HEIGHTS.screen;
    if (isPaper) document.documentElement.dataset.theme = "light";
    else delete document.documentElement.dataset.theme;
    redraw();
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  matchMedia("print").addEventListener("change", (event) => onPaper(event.matches));

  return { local: false, colour, count, percent, duration, instant, element, axis, powers, scales, mount, refresh };
})();
