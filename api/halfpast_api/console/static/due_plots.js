/* What is due when, and how things went lately: plots of the console's own pages. They
   are in the reader's time zone and drawn again when the figures of the page change. */
"use strict";

(() => {
  const { colour, count, duration, scales } = kit;
  kit.local = true;

  const read = () => JSON.parse(document.getElementById("figures").textContent);
  let figures = read();

  function short(value) {
    if (value == null) return "";
    if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))} M`;
    return value >= 1e4 ? `${Number((value / 1e3).toPrecision(3))} k` : count(value);
  }

  const perSecond = (value) => (value == null ? "–" : `${value < 10 ? Number(value.toPrecision(2)) : count(value)}/s`);
  const counts = { scale: scales.count(), values: (plot, splits) => splits.map((it) => (it % 1 ? "" : short(it))), text: count };
  const rates = {
    scale: { range: (plot, low, high) => [0, Math.max(1, high * 1.08)] },
    values: (plot, splits) => splits.map((it) => (it >= 1000 ? short(it) : String(Number(it.toPrecision(3))))),
    text: perSecond,
  };
  const spans = {
    scale: { distr: 3, range: (plot, low, high) => [0.1, 10 ** Math.ceil(Math.log10(Math.max(10, high * 1.05)))] },
    values: (plot, splits) => splits.map((it) => (it == null || it < 0.1 ? "" : it < 1 ? `${it} ms` : duration(it))),
    axis: { splits: kit.powers },
    text: (value) => (value == null ? "–" : value < 1 ? `${value} ms` : `≤ ${duration(value)}`),
  };

  const line = (name, values, shade, more) => ({ name, values, colour: colour(shade), points: { show: false }, ...more });
  const isEmpty = (values) => values.every((it) => it == null);

  const plots = {
    due() {
      if (!figures.times.length || figures.due.every((it) => !it)) return null;
      const end = figures.times[figures.times.length - 1] + figures.step;
      const bars = uPlot.paths.bars({ size: [0.9, Infinity], align: 1 });
      return {
        x: figures.times,
        span: () => [figures.times[0], end],
        y: counts,
        columns: [line("due", figures.due, "plot-1", { fill: colour("plot-1"), width: 0, paths: bars })],
      };
    },

    rates() {
      if (figures.at.length < 2) return null;
      const names = [["written", "plot-5"], ["scheduled", "plot-3"], ["delivered", "plot-1"], ["transactions", "plot-6"]];
      return recent(rates, names.map(([name, shade]) => line(name, figures.rates[name], shade, { width: 1.8 })));
    },

    lateness() {
      if (figures.at.length < 2 || isEmpty(figures.lateness.max)) return null;
      const ranks = [["p50", "rank-2"], ["p99", "rank-3"], ["max", "plot-4"]];
      const dots = { show: true, size: 4 };
      return recent(spans, ranks.map(([name, shade]) => line(name, figures.lateness[name], shade, { points: dots })));
    },
  };

  function recent(y, columns) {
    return { x: figures.at, span: () => [figures.since, figures.at[figures.at.length - 1]], y, columns };
  }

  for (const figure of document.querySelectorAll("[data-plot]")) {
    kit.mount(figure, plots[figure.dataset.plot], null);
  }

  document.addEventListener("halfpast:part", () => {
    figures = read();
    kit.refresh();
  });
  document.documentElement.dataset.drawn = "yes";
})();
