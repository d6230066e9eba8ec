/* What pages of the console do by themselves: times in the reader's zone, ages that
   grow, parts that stay live, the keyboard, boxes that are ticked together. All pages
   work without it, in UTC and as of when they were made. */
"use strict";

(() => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const all = (root, selector) => root.querySelectorAll(selector);

  /* Times */

  const two = (number) => String(number).padStart(2, "0");

  function local(at) {
    const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
    const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
    const ms = at.getMilliseconds();
    return `${day} ${time}${ms ? `.${String(ms).padStart(3, "0")}` : ""}`;
  }

  function span(ms) {
    for (const [size, name] of [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]]) {
      if (ms >= size) {
        const number = ms / size;
        return `${number < 10 && size > 1000 ? Number(number.toFixed(1)) : Math.floor(number)} ${name}`;
      }
    }
    return "now";
  }

  function age(at) {
    // A server for tests may go by a clock of its own.
    const clock = document.querySelector("[data-clock-ms]");
    const away = at - (clock ? Number(clock.dataset.clockMs) : Date.now());
    const said = span(Math.abs(away));
    return said === "now" ? "now" : away > 0 ? `in ${said}` : `${said} ago`;
  }

  function showTimes(root) {
    for (const it of all(root, "time[datetime]:not([data-shown])")) {
      const at = new Date(it.getAttribute("datetime"));
      if (Number.isNaN(at.getTime())) continue;
      it.dataset.shown = "";
      it.textContent = local(at);
      it.title = `${it.getAttribute("datetime").replace("T", " ").replace("Z", " UTC")} · shown in ${zone}`;
      if ("age" in it.dataset) {
        const beside = document.createElement("span");
        beside.className = "age";
        beside.dataset.of = at.getTime();
        it.append(" ", beside);
      }
    }
    for (const it of all(root, "[data-zone]")) it.value = zone;
    for (const it of all(root, "[data-zone-name]")) it.textContent = zone;
    showAges();
  }

  function showAges() {
    for (const it of all(document, ".age[data-of]")) {
      const text = `(${age(Number(it.dataset.of))})`;
      if (it.textContent !== text) it.textContent = text;
    }
  }

  /* The server groups by hours and days of this zone. */
  document.cookie = `halfpast_zone=${encodeURIComponent(zone)}; Path=/console; SameSite=Lax; Max-Age=31536000`;

  /* Live parts: only while somebody looks, since a browser opens few connections. */

  function follow(part) {
    const dot = document.querySelector("[data-live-dot]");
    let source = null;
    let isOver = false;
    const say = (state, text) => {
      if (!dot) return;
      dot.dataset.state = state;
      dot.textContent = text;
    };
    const open = () => {
      if (source || isOver || document.hidden) return;
      source = new EventSource(part.dataset.live);
      source.addEventListener("part", (event) => {
        say("live", "live");
        Idiomorph.morph(part, event.data, {
          morphStyle: "innerHTML",
          callbacks: { beforeNodeMorphed: keepsTime },
        });
        htmx.process(part);
        begin(part);
        part.dispatchEvent(new CustomEvent("halfpast:part", { bubbles: true }));
      });
      source.addEventListener("end", () => {
        close();
        isOver = true;
        say("over", "final");
      });
      source.addEventListener("problem", (event) => say("lost", `not live: ${event.data}`));
      source.onerror = () => {
        say("lost", "not live, trying again");
        if (source && source.readyState === EventSource.CLOSED) {
          source = null;
          setTimeout(open, 5000);
        }
      };
    };
    const close = () => {
      if (source) source.close();
      source = null;
    };
    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    window.addEventListener("pagehide", close);
    window.addEventListener("pageshow", open);
    open();
  }

  /* A time that is shown already and means the same moment stays as it is; and nobody
     folds up what a reader has opened. */
  function keepsTime(old, fresh) {
    if (old.nodeName === "TIME" && "shown" in old.dataset && old.getAttribute("datetime") === fresh.getAttribute("datetime")) return false;
    if (old.nodeName === "DETAILS" && old.open) fresh.open = true;
    return true;
  }

  /* Boxes that are ticked together */

  document.addEventListener("change", (event) => {
    const it = event.target;
    if (it.matches("[data-tick-all]")) {
      for (const box of all(it.closest("form"), "input[name=id]")) box.checked = it.checked;
    }
    if (it.matches("[data-tick-all], input[name=id]")) countTicked(it.closest("form"));
    const choice = it.closest("[data-shows]");
    if (choice) showChoice(choice);
  });

  function countTicked(form) {
    const count = all(form, "input[name=id]:checked").length;
    for (const it of all(form, "[data-ticked]")) it.textContent = count ? `${count} chosen` : "none chosen";
    for (const it of all(form, "[data-needs-ticked]")) it.disabled = !count;
  }

  /* Fields that belong to one of several choices */

  function showChoice(group) {
    const chosen = group.querySelector(`[name="${group.dataset.shows}"]:checked`) || group.querySelector(`select[name="${group.dataset.shows}"]`);
    for (const it of all(group, "[data-for]")) {
      it.hidden = !chosen || !it.dataset.for.split(" ").includes(chosen.value);
    }
  }

  /* Cells of the heat map: one stop of the Tab key, and arrows between them */

  function walkable(table) {
    const cells = [...all(table, "td a")];
    const stop = cells.find((it) => it === document.activeElement) || cells[0];
    for (const it of cells) it.tabIndex = it === stop ? 0 : -1;
  }

  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey) {
      const find = document.getElementById("find");
      if (find) {
        event.preventDefault();
        find.focus();
        find.select();
      }
    }
    const from = event.target.closest && event.target.closest(".heat td a");
    if (from) walk(from, event);
  });

  function walk(from, event) {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const cell = from.closest("td");
    const rows = [...from.closest("tbody").rows];
    let row = rows.indexOf(cell.parentElement);
    let column = cell.cellIndex;
    for (;;) {
      row += step[0];
      column += step[1];
      const next = rows[row] && rows[row].cells[column];
      if (!next) return;
      const link = next.querySelector("a");
      if (link) {
        from.tabIndex = -1;
        link.tabIndex = 0;
        link.focus();
        return;
      }
    }
  }

  /* Begin, and again for what htmx brings */

  function begin(root) {
    showTimes(root);
    for (const it of all(root, "[data-shows]")) showChoice(it);
    for (const it of all(root, ".heat")) walkable(it);
    for (const form of all(root, "form:has(input[name=id])")) countTicked(form);
  }

  begin(document);
  document.addEventListener("htmx:afterSwap", (event) => begin(event.target.isConnected ? event.target : document));
  document.addEventListener("htmx:afterSettle", () => begin(document));
  for (const part of all(document, '[data-live]:not([data-live=""])')) follow(part);
  setInterval(showAges, 1000);
  document.documentElement.dataset.ready = "yes";
})();
