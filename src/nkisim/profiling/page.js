"use strict";
(() => {
  const ROW = 20, AXIS = 22, MEMORY = 110, GAP = 34, LINE = 16;
  const NARROW = 600; // pixels below which labels are short, and legends begin at the left
  const OWNERS = ["#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#777777",
    "#88ccaa", "#cc8855", "#5566cc", "#99aa33", "#bbbbbb"];

  const time = (ns) => ns >= 1e6 ? (ns / 1e6).toFixed(3) + " ms" : (ns / 1e3).toFixed(3) + " us";
  const bytes = (n) => n >= 1 << 20 ? (n / (1 << 20)).toFixed(1) + " MiB"
    : n >= 1024 ? (n / 1024).toFixed(1) + " KiB" : n + " B";

  // Step of an axis with at most `count` ticks: 1, 2 or 5 times a power of ten.
  function step(range, count) {
    const raw = range / count, power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  }

  // Index of the last value that is at most x, or first - 1.
  function last(values, x, first, end) {
    let low = first, high = end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] <= x) low = middle + 1; else high = middle;
    }
    return low - 1;
  }

  function chart(root) {
    const data = JSON.parse(root.querySelector("script.data").textContent);
    const canvas = root.querySelector("canvas"), tip = root.querySelector(".tip");
    const range = root.querySelector(".range");
    const b = data.blocks, whole = Math.max(data.end, 1);
    let from = 0, to = whole, width = 0, height = 0, LEFT = 184, chosen = -1, drag = null;
    let first = 0;
    for (const row of data.rows) {
      row.first = first;
      first += row.blocks;
    }
    for (const memory of data.memory) memory.full = memory.peak * 4 >= memory.capacity;
    const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();

    // Places of rows, memories and their legends, which take as many lines as the width needs.
    function layout(c) {
      LEFT = width < NARROW ? 92 : 184;
      let top = AXIS;
      for (const row of data.rows) {
        row.top = top;
        top += ROW;
      }
      for (const memory of data.memory) {
        const begin = width < NARROW ? 2 : LEFT;
        const peak = `peak ${bytes(memory.peak)} of ${bytes(memory.capacity)}`;
        const named = width < NARROW ? `${memory.label} per partition, ${peak}` : peak;
        let left = begin, line = 0;
        memory.legend = [named, ...memory.owners.map(
          (owner) => owner.line ? `${owner.name} (line ${owner.line})` : owner.name)
        ].map((text, k) => {
          const length = c.measureText(text).width + (k ? 26 : 16);
          if (left > begin && left + length > width) {
            left = begin;
            line++;
          }
          const place = { text, left, line, colour: k ? OWNERS[(k - 1) % OWNERS.length] : "" };
          left += length;
          return place;
        });
        memory.top = top + GAP + line * LINE;
        for (const entry of memory.legend) entry.y = memory.top - 12 - (line - entry.line) * LINE;
        top = memory.top + MEMORY;
      }
      height = top + 8;
    }

    // Scale of the memories: up to the capacity where they are full enough, or all of them.
    function rescale(all) {
      for (const memory of data.memory) {
        memory.high = 1.1 * Math.max(memory.peak, memory.full || all ? memory.capacity : 0);
      }
    }
    rescale(false);
    const x = (t) => LEFT + (t - from) / (to - from) * (width - LEFT);
    const t = (px) => from + (px - LEFT) / (width - LEFT) * (to - from);

    function draw() {
      const scale = window.devicePixelRatio || 1;
      width = canvas.clientWidth;
      if (!width) return; // not laid out yet
      const c = canvas.getContext("2d");
      c.font = "11px system-ui, sans-serif";
      layout(c);
      canvas.width = width * scale;
      canvas.height = height * scale;
      canvas.style.height = height + "px";
      c.scale(scale, scale);
      c.font = "11px system-ui, sans-serif";
      c.textBaseline = "middle";
      axis(c);
      let drawn = 0;
      for (const row of data.rows) drawn += blocks(c, row);
      for (const memory of data.memory) area(c, memory);
      c.clearRect(0, AXIS, LEFT - 1, height);
      c.fillStyle = colour("text");
      for (const row of data.rows) label(c, row.label, row.top + ROW / 2);
      for (const memory of data.memory) scaleOf(c, memory);
      canvas.dataset.drawn = drawn;
      canvas.dataset.from = Math.round(from);
      canvas.dataset.to = Math.round(to);
      range.textContent = `${time(from)} to ${time(to)}`;
    }

    function label(c, text, y) {
      if (width < NARROW) text = text.replace(/ \(.*\)$/, "");
      while (c.measureText(text).width > LEFT - 10) text = text.slice(0, -2) + "…";
      c.fillText(text, 2, y);
    }

    function axis(c) {
      const each = step(to - from, Math.max((width - LEFT) / 110, 2));
      c.fillStyle = colour("quiet");
      c.strokeStyle = colour("grid");
      for (let at = Math.ceil(from / each) * each; at <= to; at += each) {
        c.beginPath();
        c.moveTo(x(at), AXIS - 6);
        c.lineTo(x(at), height);
        c.stroke();
        const digits = Math.max(0, 3 - Math.floor(Math.log10(each)));
        const text = (at / 1e3).toFixed(Math.min(digits, 3)) + " us";
        if (x(at) + c.measureText(text).width < width) c.fillText(text, x(at) + 2, AXIS - 12);
      }
    }

    function blocks(c, row) {
      const end = row.first + row.blocks;
      const narrow = new Float32Array(width + 1); // by pixel, the share of time in narrow blocks
      let i = Math.max(last(b.start, from, row.first, end), row.first), drawn = 0;
      for (; i < end && b.start[i] <= to; i++) {
        if (b.end[i] < from) continue;
        drawn++;
        const left = Math.max(x(b.start[i]), LEFT), right = Math.min(x(b.end[i]), width);
        const share = Math.min(b.busy[i] / Math.max(b.end[i] - b.start[i], 1), 1);
        const faded = chosen >= 0 && b.place[i] !== chosen ? 0.15 : 1;
        if (right - left < 1) {
          narrow[Math.floor(left)] += faded * Math.max(share * (right - left), 0.05);
          continue;
        }
        const w = right - left - (right - left > 4 ? 0.6 : 0);
        c.globalAlpha = faded * (0.35 + 0.65 * share);
        c.fillStyle = row.colour;
        c.fillRect(left, row.top + 2, w, ROW - 4);
        const name = data.names[b.name[i]];
        if (w > 30 && c.measureText(name).width < w - 6) {
          c.fillStyle = "#fff";
          c.fillText(name, left + 3, row.top + ROW / 2);
        }
      }
      c.fillStyle = row.colour;
      narrow.forEach((share, px) => {
        if (!share) return;
        c.globalAlpha = Math.min(0.15 + 0.85 * share, 1);
        c.fillRect(px, row.top + 2, 1, ROW - 4);
      });
      c.globalAlpha = 1;
      return drawn;
    }

    function area(c, memory) {
      const y = (n) => memory.top + MEMORY - n / memory.high * MEMORY;
      const times = memory.times, base = new Array(times.length).fill(0);
      const begin = Math.max(last(times, from, 0, times.length), 0);
      memory.owners.forEach((owner, k) => {
        c.fillStyle = OWNERS[k % OWNERS.length];
        for (let i = begin; i < times.length && times[i] <= to; i++) {
          const n = owner.bytes[i], low = base[i];
          base[i] += n;
          if (!n) continue;
          // Whole pixels, so that no gap shows between neighbours.
          const left = Math.round(Math.max(x(times[i]), LEFT));
          const right = i + 1 < times.length ? Math.round(Math.min(x(times[i + 1]), width))
            : left + 1;
          c.fillRect(left, y(low + n), Math.max(right - left, 1), y(low) - y(low + n));
        }
      });
    }

    function scaleOf(c, memory) {
      const y = (n) => memory.top + MEMORY - n / memory.high * MEMORY;
      c.strokeStyle = colour("axis");
      c.beginPath();
      c.moveTo(LEFT, memory.top);
      c.lineTo(LEFT, memory.top + MEMORY);
      c.lineTo(width, memory.top + MEMORY);
      c.stroke();
      const unit = memory.high < 2048 ? 1 : 1024;
      const each = step(memory.high / unit, 4) * unit;
      c.fillStyle = colour("quiet");
      c.textAlign = "right";
      for (let n = 0; n <= memory.high; n += each) c.fillText(bytes(n), LEFT - 5, y(n));
      c.textAlign = "left";
      if (width >= NARROW) {
        c.fillStyle = colour("text");
        c.fillText(memory.label, 2, memory.top + 8);
        c.fillStyle = colour("quiet");
        c.fillText("per partition", 2, memory.top + 24);
      }
      legend(c, memory);
      if (memory.capacity <= memory.high) {
        c.strokeStyle = colour("error");
        c.setLineDash([5, 3]);
        c.beginPath();
        c.moveTo(LEFT, y(memory.capacity));
        c.lineTo(width, y(memory.capacity));
        c.stroke();
        c.setLineDash([]);
        c.fillStyle = colour("error");
        c.fillText("capacity " + bytes(memory.capacity), LEFT + 6, y(memory.capacity) + 9);
      }
    }

    function legend(c, memory) {
      for (const entry of memory.legend) {
        if (entry.colour) {
          c.fillStyle = entry.colour;
          c.fillRect(entry.left, entry.y - 5, 10, 10);
        }
        c.fillStyle = colour("quiet");
        c.fillText(entry.text, entry.left + (entry.colour ? 14 : 0), entry.y);
      }
    }

    function show(start, end) {
      const length = Math.min(Math.max(end - start, 10), whole);
      from = Math.min(Math.max(start, 0), whole - length);
      to = from + length;
      draw();
    }

    function zoom(factor, at) {
      show(at - (at - from) * factor, at + (to - at) * factor);
    }

    function at(px, py) {
      const moment = t(px), near = 3 * (to - from) / (width - LEFT);
      const row = data.rows.find((r) => py >= r.top && py < r.top + ROW);
      if (row) {
        const end = row.first + row.blocks;
        const i = last(b.start, moment + near, row.first, end);
        return i >= row.first && b.end[i] >= moment - near ? block(row, i) : null;
      }
      const memory = data.memory.find((m) => py >= m.top && py < m.top + MEMORY);
      if (!memory) return null;
      const i = last(memory.times, moment, 0, memory.times.length);
      if (i < 0) return null;
      const lines = memory.owners.filter((o) => o.bytes[i])
        .map((o) => `${o.name}${o.line ? ` (line ${o.line})` : ""}: ${bytes(o.bytes[i])}`);
      const sum = memory.owners.reduce((n, o) => n + o.bytes[i], 0);
      const share = (100 * sum / memory.capacity).toFixed(1);
      return { text: [`${memory.label} at ${time(moment)}: ${bytes(sum)}, ${share} %`, ...lines]
        .join("\n"), place: -1 };
    }

    function block(row, i) {
      const [file, line, text] = data.places[b.place[i]];
      const busy = b.count[i] > 1 ? `${b.count[i]} instructions, first ` : "";
      const lines = [
        `${busy}${data.names[b.name[i]]}   ${row.label}`,
        `${file.split(/[\\/]/).pop()}:${line}   ${text}`,
        `${time(b.start[i])} to ${time(b.end[i])}, ${time(b.end[i] - b.start[i])}`,
        `result ready at ${time(b.ready[i])}`,
      ];
      if (b.nbytes[i]) lines.push(`${bytes(b.nbytes[i])} moved`);
      return { text: lines.join("\n"), place: b.place[i] };
    }

    function choose(place) {
      chosen = chosen === place ? -1 : place;
      for (const row of root.querySelectorAll("tr[data-place]")) {
        row.classList.toggle("chosen", Number(row.dataset.place) === chosen);
      }
      draw();
    }

    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const span = to - from;
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        show(from + event.deltaX / width * span, to + event.deltaX / width * span);
      } else {
        zoom(event.deltaY > 0 ? 1.25 : 0.8, Math.max(t(event.offsetX), from));
      }
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      drag = { x: event.offsetX, from, to, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (drag) {
        const shift = (drag.x - event.offsetX) / (width - LEFT) * (drag.to - drag.from);
        drag.moved = drag.moved || Math.abs(drag.x - event.offsetX) > 3;
        if (drag.moved) show(drag.from + shift, drag.to + shift);
      }
      const found = event.offsetX >= LEFT ? at(event.offsetX, event.offsetY) : null;
      tip.style.display = found ? "block" : "none";
      if (!found) return;
      tip.textContent = found.text;
      const right = event.offsetX > width / 2;
      tip.style.left = right ? "" : event.offsetX + 14 + "px";
      tip.style.right = right ? width - event.offsetX + 14 + "px" : "";
      tip.style.top = event.offsetY + 14 + "px";
    });
    canvas.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved && event.offsetX >= LEFT) {
        const found = at(event.offsetX, event.offsetY);
        choose(found ? found.place : -1);
      }
      drag = null;
    });
    canvas.addEventListener("pointerleave", () => { tip.style.display = "none"; });
    canvas.addEventListener("dblclick", () => show(0, whole));
    canvas.addEventListener("keydown", (event) => {
      const span = to - from, keys = {
        "+": () => zoom(0.5, from + span / 2), "-": () => zoom(2, from + span / 2),
        "0": () => show(0, whole), ArrowLeft: () => show(from - span / 5, to - span / 5),
        ArrowRight: () => show(from + span / 5, to + span / 5),
      };
      if (keys[event.key]) {
        event.preventDefault();
        keys[event.key]();
      }
    });
    for (const button of root.querySelectorAll("button[data-zoom]")) {
      const factor = Number(button.dataset.zoom);
      button.addEventListener("click", () => factor ? zoom(factor, (from + to) / 2)
        : show(0, whole));
    }
    root.querySelector(".whole").addEventListener("change", (event) => {
      rescale(event.target.checked);
      draw();
    });
    const numbers = new Map(data.places.map(([file, line], i) => [file + ":" + line, i]));
    for (const row of root.querySelectorAll("tr[data-line]")) {
      const place = numbers.get(row.dataset.file + ":" + row.dataset.line);
      if (place === undefined) continue;
      row.dataset.place = place;
      row.addEventListener("click", () => choose(place));
    }
    draw();
    new ResizeObserver(draw).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  }

  for (const root of document.querySelectorAll(".nkisim-profile:not([data-ready])")) {
    root.dataset.ready = "1";
    chart(root);
  }
})();
