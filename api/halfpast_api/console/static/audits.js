/* The plots of the audits, and what their page does by itself. */
"use strict";

(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const { times, step } = figures;
  const { colour, count, percent, duration, instant, element, scales } = kit;

  const counts = { scale: scales.count(), values: (plot, splits) => splits.map(short), text: count };
  const rates = { scale: scales.share(), values: (plot, splits) => splits.map(percentTick), text: percent };
  const spans = {
    scale: scales.log(),
    values: (plot, splits) => splits.map((it) => (it == null || it < 1 ? "" : duration(it))),
    axis: { splits: kit.powers },
    text: duration,
  };

  function short(value) {
    if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))} M`;
    return value >= 1e4 ? `${Number((value / 1e3).toPrecision(3))} k` : count(value);
  }

  function percentTick(value) {
    return `${Number((value * 100).toPrecision(6))} %`;
  }

  const span = () => [times[0], times[times.length - 1] + step];
  const isEmpty = (values) => values.every((it) => it == null);

  /* Columns upon each other: the sums are drawn, the highest first. */
  function stack(parts) {
    const sums = times.map(() => 0);
    const bars = uPlot.paths.bars({ size: [1, Infinity], align: 1, gap: times.length > 100 ? 0 : 1 });
    const columns = parts.map((part) => {
      part.values.forEach((value, at) => (sums[at] += value || 0));
      const shown = part.values.map((value, at) => (value == null ? null : sums[at]));
      return { ...part, shown, fill: part.colour, width: 0, paths: bars, points: { show: false } };
    });
    return columns.reverse();
  }

  const over = (spec) => ({ x: times, span, ...spec });
  const line = (name, values, shade, more) => ({ name, values, colour: colour(shade), ...more });

  /* A line that has a value at one step alone is a point. */
  const lone = { points: { show: (plot, series) => plot.data[series].filter((it) => it != null).length < 40, size: 4 } };

  const plots = {
    rate() {
      if (isEmpty(figures.rate)) return null;
      const shades = ["plot-3", "plot-5", "plot-6", "plot-4", "plot-2"];
      const groups = figures.rates.map((it, at) => line(it.name, it.rate, shades[at], { width: 1.2, ...lone }));
      const own = groups.length > 1 ? groups : [];
      const fill = `color-mix(in srgb, ${colour("plot-1")} 12%, transparent)`;
      const all = line(own.length ? "all" : "rate", figures.rate, "plot-1", { width: 2.2, fill, ...lone });
      return over({ y: rates, columns: [all, ...own] });
    },

    mix() {
      const { committed, rolled_back, open, parked } = figures.transactions;
      if (isEmpty(committed)) return null;
      const columns = stack([
        line("committed", committed, "plot-1"),
        line("rolled back", rolled_back, "plot-2"),
        line("open", open, "plot-5"),
        line("parked", parked, "plot-4"),
      ]);
      return over({ y: counts, columns });
    },

    outcome() {
      if (isEmpty(figures.outcome.p50)) return null;
      return over({ y: spans, columns: ranks(figures.outcome, ["p50", "p95", "p99"]) });
    },

    checks() {
      const { checks } = figures;
      if (!checks.length) return null;
      const x = checks.map((_, at) => at);
      const text = (at) => (checks[at] ? `${checks[at][0]}` : "");
      const values = checks.map(([, number]) => number);
      const paths = uPlot.paths.bars({ size: [0.6, 60] });
      const bars = { width: 0, paths, fill: colour("plot-3"), shown: values.map((it) => Math.max(it, 0.7)) };
      return {
        x,
        xScale: { time: false, range: () => [-0.6, x.length - 0.4] },
        xAxis: kit.axis({ grid: { show: false }, splits: () => x, values: (plot, splits) => splits.map(text), size: 30 }),
        xText: text,
        xLabel: "checks",
        y: { ...counts, scale: scales.log(), values: (plot, splits) => splits.map((it) => (it == null || it < 1 ? "" : short(it))), axis: spans.axis },
        columns: [line("transactions", values, "plot-3", bars)],
      };
    },

    lateness() {
      if (isEmpty(figures.lateness.max)) return null;
      const columns = ranks(figures.lateness, ["p50", "p95", "p99", "p999"]);
      if (figures.sla_ms != null) {
        const values = times.map(() => figures.sla_ms);
        columns.push(line("SLA", values, "plot-6", { width: 1.2, dash: [6, 4] }));
      }
      return over({ y: spans, columns });
    },

    heat() {
      return figures.heat.cells.length ? heatMap(figures.heat) : null;
    },

    sla() {
      if (isEmpty(figures.attainment)) return null;
      const missed = figures.attainment.map((it) => (it == null ? null : 1 - it));
      const goal = figures.sla_share == null ? null : 1 - figures.sla_share;
      const columns = [{ ...line("attained", figures.attainment, "plot-1", { shown: missed, ...lone }), fill: `color-mix(in srgb, ${colour("plot-1")} 12%, transparent)` }];
      if (goal != null) {
        const values = times.map(() => figures.sla_share);
        const shown = times.map(() => goal);
        columns.push(line("target", values, "plot-6", { shown, width: 1.2, dash: [6, 4] }));
      }
      /* The distance from all: what matters lies between 99 and 100 %. All is on top. */
      const scale = {
        dir: -1,
        range: (plot, low, high) => [0, Math.min(1, Math.max(high * 1.15, (goal || 0.001) * 1.6))],
      };
      const values = (plot, splits) => splits.map((it) => percentTick(1 - it));
      return over({ y: { scale, values, text: percent, axis: { size: 70 } }, columns });
    },

    timers() {
      const { fired, cancelled, pending, dead, lost } = figures.on_time;
      if (isEmpty(fired)) return null;
      const columns = stack([
        line("fired", fired, "plot-1"),
        line("cancelled", cancelled, "plot-2"),
        line("pending", pending, "plot-5"),
        line("dead", dead, "plot-3"),
        line("lost", lost, "plot-4"),
      ]);
      return over({ y: counts, columns });
    },
  };

  function ranks(values, names) {
    const title = { p50: "p50", p95: "p95", p99: "p99", p999: "p99.9" };
    const least = (column) => column.map((it) => (it == null ? null : Math.max(it, 0.5)));
    const lines = names.map((name, at) =>
      line(title[name], values[name], `rank-${at + 5 - names.length}`, { shown: least(values[name]), ...lone })
    );
    const dots = { show: true, size: 3, width: 0, fill: colour("plot-4") };
    lines.push(line("max", values.max, "plot-4", { shown: least(values.max), width: 0, fill: colour("plot-4"), paths: () => null, points: dots }));
    return lines;
  }

  /* Cells of a log scale, the darker the more; light pages and dark ones alike. */
  function heatMap({ rows, cells }) {
    const most = Math.max(...cells.map(([, , number]) => number));
    const ramp = [1, 2, 3, 4].map((number) => rgb(colour(`heat-${number}`)));
    const bottom = (row) => Math.max(0.5, rows[row][0]);
    const top = (row) => rows[row][1] + 1;
    const found = new Map(cells.map(([at, row, number]) => [`${at} ${row}`, number]));
    const readout = element("p", { class: "readout" });
    const scale = element("span", { class: "scale" });
    const legend = () => readout.replaceChildren("1", scale, `${count(most)} messages`);
    legend();

    function drawCells(plot) {
      const { ctx } = plot;
      ctx.save();
      ctx.beginPath();
      ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
      ctx.clip();
      for (const [at, row, number] of cells) {
        const left = plot.valToPos(times[at], "x", true);
        const right = plot.valToPos(times[at] + step, "x", true);
        const low = plot.valToPos(bottom(row), "y", true);
        const high = plot.valToPos(top(row), "y", true);
        ctx.fillStyle = shade(ramp, most > 1 ? Math.log(number) / Math.log(most) : 1);
        ctx.fillRect(Math.floor(left), Math.floor(high), Math.ceil(right) - Math.floor(left), Math.max(1, Math.ceil(low) - Math.floor(high)));
      }
      ctx.restore();
    }

    function read(plot) {
      const { idx, left, top: down } = plot.cursor;
      if (idx == null || left < 0) return legend();
      const value = plot.posToVal(down, "y");
      const row = rows.findIndex((_, at) => value >= bottom(at) && value < top(at));
      const number = row < 0 ? 0 : found.get(`${idx} ${row}`) || 0;
      const late = row < 0 ? "" : ` · ${nameOf(rows[row])}`;
      readout.textContent = `${instant(times[idx])}${late} · ${count(number)} messages`;
    }

    const heights = times.map(() => null);
    cells.forEach(([at, row]) => (heights[at] = Math.max(heights[at] || 0, top(row))));
    const byRow = rows.map((row, number) => ({
      name: nameOf(row),
      values: times.map((_, at) => found.get(`${at} ${number}`) ?? null),
    }));
    return over({
      y: { ...spans, text: count },
      columns: [{ name: "latest", values: heights, colour: "transparent", width: 0, hidden: true }],
      table: byRow,
      tell: (at) => cells.filter((it) => it[0] === at).map(([, row, number]) => `${nameOf(rows[row])} ${count(number)}`).join(", ") || "nothing",
      cursor: { y: true, points: { show: false } },
      legend: { show: false },
      hooks: { drawAxes: [drawCells], setCursor: [read] },
      readout,
    });
  }

  const nameOf = ([lower, upper]) => (lower === upper ? duration(lower) : `${duration(lower)}–${duration(upper)}`);

  function rgb(text) {
    const digits = text.replace("#", "");
    return [0, 2, 4].map((at) => parseInt(digits.slice(at, at + 2), 16));
  }

  function shade(ramp, share) {
    const place = Math.min(share, 0.9999) * (ramp.length - 1);
    const [from, to] = [ramp[Math.floor(place)], ramp[Math.floor(place) + 1]];
    const mixed = from.map((it, at) => Math.round(it + (to[at] - it) * (place % 1)));
    return `rgb(${mixed.join(" ")})`;
  }

  for (const figure of document.querySelectorAll("[data-plot]")) {
    kit.mount(figure, plots[figure.dataset.plot], figures.zoom);
  }

  /* A choice is an answer: no need to press the button too. */
  const form = document.querySelector(".filter");
  for (const select of form ? form.querySelectorAll("select") : []) {
    select.addEventListener("change", () => form.requestSubmit());
  }
  document.documentElement.dataset.drawn = "yes";
})();
