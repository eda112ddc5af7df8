// Draws a report from the JSON in #data. Names come from graphs and files: text goes into the page
// by textContent and attributes alone, never as markup. Start reading at show().
'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const byId = (id) => document.getElementById(id);
  const SVG = 'http://www.w3.org/2000/svg';

  function node(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }
  function shape(name, attributes = {}, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  const number = (value, digits) =>
    value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const percent = (part, whole) => (whole > 0 ? `${number((100 * part) / whole, 0)}%` : '–');
  function milliseconds(ms) {
    return `${number(ms, ms < 10 ? 3 : ms < 100 ? 2 : 1)} ms`;
  }
  function time(us) {
    if (us >= 1000) return `${number(us / 1000, us < 10000 ? 3 : 2)} ms`;
    return `${number(us, us < 10 ? 2 : 1)} µs`;
  }
  function bytes(count) {
    if (count < 1024) return `${count} B`;
    let value = count;
    for (const unit of ['KiB', 'MiB', 'GiB', 'TiB']) {
      value /= 1024;
      if (value < 1024 || unit === 'TiB') return `${number(value, 1)} ${unit}`;
    }
  }
  function ticks(low, high, wanted) {
    const rough = (high - low) / Math.max(1, wanted);
    if (!(rough > 0)) return [low];
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9) + 0; i * step <= high + step * 1e-9; ++i) found.push(i * step + 0);  // −0 is 0
    return found;
  }

  const tooltip = byId('tooltip');
  function hideTooltip() { tooltip.hidden = true; }
  function showTooltip(event, text) {
    tooltip.textContent = text;
    tooltip.hidden = false;
    const box = tooltip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, window.innerWidth - box.width - 8);
    const below = event.clientY + 18;
    const top = below + box.height > window.innerHeight ? event.clientY - box.height - 12 : below;
    tooltip.style.left = `${Math.max(8, left)}px`;
    tooltip.style.top = `${Math.max(8, top)}px`;
  }

  // ---- Figures, overlap, tables -------------------------------------------------------------

  function figure(name, key, value, text, note) {
    const dd = node('dd', { 'data-figure': key, 'data-value': String(value) }, text);
    return node('dl', { class: 'figure', style: 'margin:0' }, node('dt', {}, name), dd,
      ...(note ? [node('div', { class: 'note' }, note)] : []));
  }

  function showFigures(run) {
    const o = run.overlap;
    const each = run.traced_steps > 1
      ? `${run.traced_steps} steps, ${milliseconds(o.wall_ms / run.traced_steps)} each` : `${run.traced_steps} step`;
    const figures = [
      figure('time in steps', 'wall_ms', o.wall_ms, milliseconds(o.wall_ms), each),
      figure('compute', 'compute_ms', o.compute_ms, milliseconds(o.compute_ms),
        `${percent(o.compute_ms, o.wall_ms)} of the time`),
      figure('hooks', 'hook_ms', o.hook_ms, milliseconds(o.hook_ms), `${run.hook_calls} calls`),
      figure('hidden', 'hidden_ms', o.hidden_ms, milliseconds(o.hidden_ms),
        `${percent(o.hidden_ms, o.hook_ms)} of the hooks, behind compute`),
      figure('exposed', 'exposed_ms', o.exposed_ms, milliseconds(o.exposed_ms),
        `${percent(o.exposed_ms, o.wall_ms)} of the time`),
    ];
    if (run.last_loss !== null)
      figures.push(figure('last loss', 'last_loss', run.last_loss, number(run.last_loss, 4),
        `iteration ${run.losses[run.losses.length - 1][0]}`));
    if (run.test_accuracy !== null)
      figures.push(figure('test accuracy', 'test_accuracy', run.test_accuracy,
        `${number(100 * run.test_accuracy, 2)}%`));
    byId('figures').replaceChildren(...figures);
  }

  function bar(parts, whole) {
    const row = node('div', { class: 'bar' });
    for (const [value, color] of parts)
      if (whole > 0 && value > 0)
        row.append(node('span', { style: `width:${(100 * value) / whole}%;background:var(${color})` }));
    return row;
  }

  function showOverlap(run) {
    const o = run.overlap;
    const idle = Math.max(0, o.wall_ms - o.compute_ms - o.exposed_ms);
    const box = node('div', { class: 'bars' });
    box.append(node('p', {}, `Of the steps' ${milliseconds(o.wall_ms)}: compute ${milliseconds(o.compute_ms)}, ` +
      `hooks alone ${milliseconds(o.exposed_ms)}, neither ${milliseconds(idle)}.`));
    box.append(bar([[o.compute_ms, '--forward'], [o.exposed_ms, '--exposed']], o.wall_ms));
    if (o.hook_ms > 0) {
      box.append(node('p', {}, `Of the hooks' ${milliseconds(o.hook_ms)}: ${milliseconds(o.hidden_ms)} hidden behind compute ` +
        `(${percent(o.hidden_ms, o.hook_ms)}), ${milliseconds(o.exposed_ms)} exposed (${percent(o.exposed_ms, o.hook_ms)}).`));
      box.append(bar([[o.hidden_ms, '--hidden'], [o.exposed_ms, '--exposed']], o.hook_ms));
    } else {
      box.append(node('p', { class: 'hint' }, 'No hook ran in the traced steps.'));
    }
    byId('overlap').replaceChildren(box);
  }

  function rows(table, heads, lines) {
    const head = node('tr', {}, ...heads.map((head) => (head instanceof Node ? head : node('th', { scope: 'col' }, head))));
    const body = lines.map((cells) => node('tr', {}, ...cells.map((cell) =>
      (cell instanceof Node ? cell : node('td', {}, String(cell))))));
    table.replaceChildren(node('thead', {}, head), node('tbody', {}, ...body));
  }

  function showPartitions(run) {
    rows(byId('partitions'), ['partition', 'nodes', 'parameters', 'bytes', 'kernels', 'forward', 'backward', node('th', { scope: 'col', class: 'first' }, 'computes')],
      run.partitions.map((p) => [
        p.name, p.nodes.length, number(p.parameter_elements, 0), bytes(p.bytes), p.kernels,
        p.forward_ms === null ? '–' : milliseconds(p.forward_ms),
        p.backward_ms === null ? '–' : milliseconds(p.backward_ms),
        node('td', { class: 'wrap' }, p.nodes.join(', ')),
      ]));
  }

  function showMemory(run) {
    const m = run.memory;
    const line = (name, key, remark = '') =>
      [name, node('td', { 'data-figure': key, 'data-value': String(m[key]) }, bytes(m[key])),
        node('td', { class: 'remark' }, remark)];
    rows(byId('memory'), ['', 'bytes', ''], [
      line('parameters', 'parameters'),
      line('gradients', 'gradients', 'one bucket; hooks see it in place'),
      line('optimizer state', 'optimizer'),
      line('inputs', 'inputs'),
      line('outputs', 'outputs'),
      line('temporaries, planned peak', 'arena', `at least ${bytes(m.lower_bound)} are alive at once`),
      line('lower bound of the peak', 'lower_bound',
        m.arena > 0 ? `the plan is ${number((100 * m.arena) / Math.max(1, m.lower_bound) - 100, 1)}% above it` : ''),
      line('of which residuals', 'residuals', 'kept by forward for backward'),
      line('device, allocated', 'device_allocated', `peak ${bytes(m.device_peak)}`),
    ]);
  }

  function showFallbacks(run) {
    const entries = Object.entries(run.fallbacks);
    if (entries.length === 0) {
      byId('fallbacks').replaceChildren(node('p', { class: 'hint' },
        'None: everything was compiled, split and overlapped as asked.'));
      return;
    }
    const table = node('table');
    rows(table, ['what', 'count'], entries.map(([name, count]) => [node('td', { style: 'white-space:normal' }, name), count]));
    byId('fallbacks').replaceChildren(node('div', { class: 'scroll' }, table));
  }

  // ---- Loss curve ---------------------------------------------------------------------------

  function showLoss(run) {
    const points = run.losses.filter(([, loss]) => loss !== null);
    byId('loss-section').hidden = run.losses.length === 0;
    if (points.length === 0) {
      byId('loss').replaceChildren(node('p', { class: 'hint' }, 'No loss is a finite number.'));
      return;
    }
    const width = Math.max(280, byId('loss').clientWidth), height = 220;
    const left = 58, right = 14, top = 12, bottom = 30;
    let low = Math.min(...points.map((p) => p[1])), high = Math.max(...points.map((p) => p[1]));
    if (low > 0 && low < high / 3) low = 0;
    if (!(high - low > Math.abs(high) * 1e-9)) { low -= Math.abs(low) * 0.01 || 1; high += Math.abs(high) * 0.01 || 1; }
    const first = points[0][0], last = Math.max(points[points.length - 1][0], first + 1);
    const x = (step) => left + ((step - first) / (last - first)) * (width - left - right);
    const y = (loss) => top + (1 - (loss - low) / (high - low)) * (height - top - bottom);
    const svg = shape('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': 'loss by iteration' });
    const yTicks = ticks(low, high, 5);
    const spacing = yTicks.length > 1 ? yTicks[1] - yTicks[0] : high - low;
    const digits = Math.min(8, Math.max(0, -Math.floor(Math.log10(spacing))));
    for (const value of yTicks) {
      svg.append(shape('line', { class: 'grid', x1: left, x2: width - right, y1: y(value), y2: y(value) }));
      svg.append(shape('text', { class: 'soft', x: left - 8, y: y(value) + 4, 'text-anchor': 'end' }, number(value, digits)));
    }
    for (const value of ticks(first, last, Math.min(8, width / 90)).filter(Number.isInteger))
      svg.append(shape('text', { class: 'soft', x: x(value), y: height - 10, 'text-anchor': 'middle' }, String(value)));
    let path = '', pen = 'M';
    for (const [step, loss] of run.losses) {
      if (loss === null) { pen = 'M'; continue; }
      path += `${pen}${x(step).toFixed(2)} ${y(loss).toFixed(2)}`;
      pen = 'L';
    }
    svg.append(shape('path', { class: 'curve', d: path }));
    if (points.length <= 40)
      for (const [step, loss] of points)
        svg.append(shape('circle', { cx: x(step), cy: y(loss), r: 2.6, fill: 'var(--accent)' }));
    svg.addEventListener('pointermove', (event) => {
      const at = ((event.clientX - svg.getBoundingClientRect().left) / svg.getBoundingClientRect().width) * width;
      const near = points.reduce((a, b) => (Math.abs(x(b[0]) - at) < Math.abs(x(a[0]) - at) ? b : a));
      showTooltip(event, `iteration ${near[0]}\nloss ${near[1]}`);
    });
    svg.addEventListener('pointerleave', hideTooltip);
    byId('loss').replaceChildren(svg);
  }

  // ---- Timeline -----------------------------------------------------------------------------

  const kLeft = 104, kNarrowLeft = 12, kAxis = 24, kBlock = 26, kKernel = 18, kHook = 22, kGap = 20;
  const colorOf = (phase) => `var(--${phase === 'hooks' ? 'hook' : phase})`;
  let view = { begin: 0, end: 1, length: 1 };
  let current = { run: null, step: null };

  function lanes(run, step, narrow) {
    let y = kAxis + 6;
    const found = new Map();
    run.streams.forEach((name, stream) => {
      const blocks = step.blocks.some((b) => b.stream === stream);
      const hooks = step.spans.some((s) => s.stream === stream && s.hook);
      if (!blocks && !hooks) return;
      if (narrow) y += 16;
      found.set(stream, { name, top: y, blocks, height: blocks ? kBlock + kKernel + 2 : kHook });
      y += (blocks ? kBlock + kKernel + 2 : kHook) + kGap;
    });
    return { found, height: y };
  }

  function drawTimeline() {
    const { run, step } = current;
    const box = byId('timeline');
    if (!step) { box.replaceChildren(node('p', { class: 'hint' }, 'Nothing was traced: run a step first.')); return; }
    const width = Math.max(300, box.clientWidth);
    const narrow = width < 620;
    const left = narrow ? kNarrowLeft : kLeft, right = 12;
    const { found, height } = lanes(run, step, narrow);
    const svg = shape('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `timeline of step ${step.step}` });
    const x = (us) => left + ((us - view.begin) / (view.end - view.begin)) * (width - left - right);
    const clip = shape('clipPath', { id: 'plot' });
    clip.append(shape('rect', { x: left, y: 0, width: width - left - right, height }));
    svg.append(clip);
    const plot = shape('g', { 'clip-path': 'url(#plot)' });
    const marks = ticks(view.begin, view.end, width / 130);
    const unit = view.end >= 1000 ? 1000 : 1;
    const spacing = (marks.length > 1 ? marks[1] - marks[0] : view.end - view.begin) / unit;
    const digits = Math.min(6, Math.max(0, -Math.floor(Math.log10(spacing) + 1e-9)));
    for (const us of marks) {
      svg.append(shape('line', { class: 'grid', x1: x(us), x2: x(us), y1: kAxis - 4, y2: height - kGap / 2 }));
      if (x(us) <= width - right)
        svg.append(shape('text', { class: 'soft', x: x(us), y: 12, 'text-anchor': x(us) < left + 20 ? 'start' : x(us) > width - 50 ? 'end' : 'middle' }, `${number(us / unit, digits)} ${unit === 1000 ? 'ms' : 'µs'}`));
    }
    for (const [, lane] of found)
      svg.append(shape('text', narrow ? { x: left, y: lane.top - 5, class: 'soft' } : { x: 0, y: lane.top + (lane.blocks ? 17 : 15) }, lane.name));

    function piece(top, tall, begin, duration, phase, names, text) {
      const from = x(begin), to = x(begin + duration);
      if (to < left - 1 || from > width - right + 1) return;
      const wide = Math.max(to - from, 1.2);
      const drawn = shape('rect', { class: 'hit', x: from, y: top, width: wide, height: tall, rx: Math.min(3, wide / 3), fill: colorOf(phase) });
      drawn.addEventListener('pointermove', (event) => showTooltip(event, text));
      drawn.addEventListener('pointerleave', hideTooltip);
      plot.append(drawn);
      const seenFrom = Math.max(from, left), room = Math.min(to, width - right) - seenFrom - 8;
      const fits = names.find((name) => name.length * 6.7 <= room) ||
        (names.length === 1 && room > 40 ? `${names[0].slice(0, Math.floor(room / 6.7) - 1)}…` : '');
      if (fits) plot.append(shape('text', { class: 'label', x: seenFrom + 4, y: top + tall / 2 + 4 }, fits));
    }

    for (const b of step.blocks)
      piece(found.get(b.stream).top, kBlock, b.begin, b.duration, b.phase,
        b.partition < 0 ? [b.label, b.label[0].toUpperCase()]
          : [b.label, `${b.phase} ${b.partition}`, `${b.phase[0].toUpperCase()}${b.partition}`],
        `${b.label}\nfrom ${time(b.begin)}, ${time(b.duration)}`);
    for (const s of step.spans) {
      const lane = found.get(s.stream);
      if (!lane) continue;
      const place = s.partition >= 0 ? `${s.phase} of ${(run.partitions[s.partition] || { name: s.partition }).name}` : s.phase;
      const top = s.hook && !lane.blocks ? lane.top : lane.top + kBlock + 2;
      piece(top, s.hook && !lane.blocks ? kHook : kKernel, s.begin, s.duration, s.hook ? 'hooks' : s.phase,
        [s.label], `${s.label}\n${s.hook ? 'hook' : s.kind}, ${place}\nfrom ${time(s.begin)}, ${time(s.duration)}`);
    }
    for (const a of step.arrows) {
      const from = found.get(a.from_stream), to = found.get(a.to_stream);
      if (!from || !to) continue;
      const x1 = x(a.from), x2 = x(a.to), y1 = from.top + from.height, y2 = to.top;
      if (Math.max(x1, x2) < left || Math.min(x1, x2) > width - right) continue;
      const up = y2 < y1 ? -1 : 1;
      plot.append(shape('path', { class: 'arrow', d: `M${x1} ${y1}C${x1} ${y1 + up * 12} ${x2} ${y2 - up * 14} ${x2} ${y2 - up * 3}` }));
      plot.append(shape('path', { class: 'head', d: `M${x2} ${y2}l-3.2 ${-up * 5.5}h6.4z` }));
    }
    svg.append(plot);
    box.replaceChildren(svg);
  }

  function look(begin, end) {
    const least = Math.max(view.length / 5000, 0.05);
    let length = Math.min(Math.max(end - begin, least), view.length);
    const middle = (begin + end) / 2;
    let from = middle - length / 2;
    from = Math.min(Math.max(from, 0), view.length - length);
    view.begin = from;
    view.end = from + length;
    hideTooltip();
    drawTimeline();
  }
  function zoom(factor, at = (view.begin + view.end) / 2) {
    const length = Math.min((view.end - view.begin) * factor, view.length);
    const part = (at - view.begin) / (view.end - view.begin);
    look(at - part * length, at - part * length + length);
  }
  const pan = (part) => { const by = part * (view.end - view.begin); look(view.begin + by, view.end + by); };

  function plotScale() {
    const box = byId('timeline').getBoundingClientRect();
    const left = box.width < 620 ? kNarrowLeft : kLeft;
    return { left: box.left + left, width: Math.max(1, box.width - left - 12) };
  }
  const timeAt = (clientX) => {
    const scale = plotScale();
    return view.begin + ((clientX - scale.left) / scale.width) * (view.end - view.begin);
  };

  function listen() {
    const box = byId('timeline');
    box.addEventListener('wheel', (event) => {
      // The page scrolls as usual until the timeline was clicked.
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== box) return;
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / 1000);
      else zoom(Math.exp(event.deltaY / 500), timeAt(event.clientX));
    }, { passive: false });
    let drag = null;
    box.addEventListener('pointerdown', (event) => {
      box.focus({ preventScroll: true });
      drag = { x: event.clientX, begin: view.begin, end: view.end };
      box.setPointerCapture(event.pointerId);
    });
    box.addEventListener('pointermove', (event) => {
      if (!drag) return;
      const by = ((drag.x - event.clientX) / plotScale().width) * (drag.end - drag.begin);
      if (Math.abs(drag.x - event.clientX) > 2) look(drag.begin + by, drag.end + by);
    });
    for (const name of ['pointerup', 'pointercancel']) box.addEventListener(name, () => { drag = null; });
    box.addEventListener('dblclick', () => look(0, view.length));
    box.addEventListener('keydown', (event) => {
      const act = { ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), '+': () => zoom(0.7), '=': () => zoom(0.7),
        '-': () => zoom(1 / 0.7), 0: () => look(0, view.length), Home: () => look(0, view.length) }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
    byId('zoom-in').addEventListener('click', () => zoom(0.6));
    byId('zoom-out').addEventListener('click', () => zoom(1 / 0.6));
    byId('zoom-reset').addEventListener('click', () => look(0, view.length));
    byId('step').addEventListener('change', () => showStep(Number(byId('step').value)));
    window.addEventListener('resize', () => { drawTimeline(); showLoss(current.run); });
  }

  function showStep(index) {
    const step = current.run.steps[index] || null;
    current.step = step;
    view = { begin: 0, end: step ? step.length : 1, length: step ? step.length : 1 };
    byId('cut').textContent = step && step.left_out > 0 ? `${step.left_out} later commands of this step are left out of the page.` : '';
    drawTimeline();
    const phases = step ? [...new Set(step.spans.map((s) => (s.hook ? 'hooks' : s.phase)))] : [];
    byId('legend').replaceChildren(...phases.map((phase) =>
      node('li', {}, node('i', { style: `background:${colorOf(phase)}` }), phase)));
  }

  // ---- The page -----------------------------------------------------------------------------

  function show(index) {
    const run = data.runs[index];
    current.run = run;
    document.title = `riffle: ${run.graph}`;
    byId('version').textContent = data.version;
    byId('title').textContent = `@${run.graph}`;
    byId('subtitle').textContent = [`split ${run.split}: ${run.partitions.length} partition${run.partitions.length === 1 ? '' : 's'}`,
      run.optimizer, `device ${run.device}`, `hooks at ${run.hooks_at}`].join(' · ');
    for (const [i, button] of [...byId('runs').children].entries()) button.setAttribute('aria-pressed', String(i === index));
    byId('step').replaceChildren(...run.steps.map((step, i) => node('option', { value: i }, String(step.step))));
    byId('step').value = String(run.steps.length - 1);
    showFigures(run);
    showStep(run.steps.length - 1);
    showOverlap(run);
    showLoss(run);
    showPartitions(run);
    showMemory(run);
    showFallbacks(run);
  }

  if (data.runs.length > 1)
    byId('runs').replaceChildren(...data.runs.map((run, i) => {
      const button = node('button', { type: 'button' }, `@${run.graph}`);
      button.addEventListener('click', () => show(i));
      return button;
    }));
  listen();
  show(data.runs.length - 1);
})();
