
(() => {
  const meta = dataOf("meta");
  const LINE_PIXELS = 27.5, CHAR_PIXELS = 8, COLOURS = 8, MAP_MARKS = 1500, MARGIN_PIXELS = 1500;
  const PRINTED_PASSAGES = 300, PRINTED_CHARS = 3000;
  let source = null, rank = 0, active = null;

  const isHere = (passage) => passage >= source.first && passage < source.first + source.passages.length;
  const isActive = (passage) => passage === active;
  const numberOf = (passage) => passage - source.first + 1;
  const colourOf = (passage) => (numberOf(passage) - 1) % COLOURS;
  const known = (passage) => {
    const [kind, tokens, score, leftWords, rightWords, ...places] = source.passages[passage - source.first];
    return { kind, tokens, score, words: [leftWords, rightWords], places };
  };
  const textOf = (segment) => (typeof segment === "string" ? segment : segment[1]);
  const passagesOf = (segment) => (typeof segment === "string" ? [] : segment[0]);

  /** Whether lines were broken at some width, so that they can flow again: most are about as long as the longest, and few are set in. */
  function isWrapped(blocks) {
    const lines = blocks.slice(0, 30).flatMap((block) => block.slice(1).map(textOf).join("").split("\n")).filter((line) => line.trim());
    const lengths = lines.map((line) => line.length).sort((one, two) => one - two);
    const [middle, long] = [0.5, 0.95].map((part) => lengths[Math.floor(part * lengths.length)]);
    const indented = lines.filter((line) => /^\s/.test(line)).length;
    return lines.length > 5 && middle > 45 && long < 100 && indented < lines.length / 4;
  }

  const WORDS = /[\p{L}\p{N}][\p{L}\p{N}\p{M}]*/gu, LETTERS = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Khmer}\p{Script=Lao}\p{Script=Myanmar}]\p{M}*|(?:(?![\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Khmer}\p{Script=Lao}\p{Script=Myanmar}])[\p{L}\p{N}\p{M}])+/gu;
  const MOST_CHANGES = 800, TERM_LETTERS = 6;

  /** The words of a text, with their places; in scripts without spaces each letter is one. */
  const wordsOf = (text) => [...text.matchAll(WORDS)].flatMap((run) =>
    [...run[0].matchAll(LETTERS)].map((word) => ({ start: run.index + word.index, end: run.index + word.index + word[0].length, key: word[0].normalize("NFKC").toLowerCase() })));

  /** Of two lists of words, which are not in a longest common sequence (Myers, 1986); null if there are too many of them. */
  function changes(a, b) {
    const [n, m] = [a.length, b.length];
    const steps = [];
    let reached = new Map([[1, 0]]);
    for (let cost = 0; cost <= Math.min(n + m, MOST_CHANGES); cost++) {
      steps.push(reached);
      const next = new Map(reached);
      for (let k = -cost; k <= cost; k += 2) {
        const isDown = k === -cost || (k !== cost && (reached.get(k - 1) ?? -1) < (reached.get(k + 1) ?? -1));
        let x = isDown ? reached.get(k + 1) ?? 0 : (reached.get(k - 1) ?? 0) + 1;
        let y = x - k;
        while (x < n && y < m && a[x] === b[y]) [x, y] = [x + 1, y + 1];
        next.set(k, x);
        if (x >= n && y >= m) return walkBack(steps, n, m);
      }
      reached = next;
    }
    return null;
  }

  function walkBack(steps, n, m) {
    const differs = [new Set(), new Set()];
    let [x, y] = [n, m];
    for (let cost = steps.length - 1; cost > 0; cost--) {
      const before = steps[cost], k = x - y;
      const isDown = k === -cost || (k !== cost && (before.get(k - 1) ?? -1) < (before.get(k + 1) ?? -1));
      const from = isDown ? k + 1 : k - 1, fromX = before.get(from) ?? 0, fromY = fromX - from;
      if (isDown) differs[1].add(fromY);
      else differs[0].add(fromX);
      [x, y] = [fromX, fromY];
    }
    return differs;
  }

  /** Of two lists of words, which the other one does not have, in any order and with any ending. */
  function missing(a, b) {
    const term = (word) => [...word].slice(0, TERM_LETTERS).join("");
    const of = (one, two) => {
      const left = new Map();
      for (const word of two) left.set(term(word), (left.get(term(word)) ?? 0) + 1);
      const found = new Set();
      one.forEach((word, at) => {
        const count = left.get(term(word)) ?? 0;
        if (count) left.set(term(word), count - 1);
        else found.add(at);
      });
      return found;
    };
    return [of(a, b), of(b, a)];
  }

  const differing = new Map();
  /** The places in the text of a passage, on one side, of words that the other side does not have: [start, end] each. */
  function differences(passage, side) {
    const { kind } = known(passage);
    if (kind === "verbatim" || kind === "summary") return [];
    if (!differing.has(passage)) {
      const words = [left, right].map((pane) => wordsOf(pane.passageText(passage)));
      const [a, b] = words.map((of) => of.map(({ key }) => key));
      const found = (kind === "edited" && changes(a, b)) || missing(a, b);
      differing.set(passage, found.map((at, of) => [...at].sort((one, two) => one - two).map((number) => [words[of][number].start, words[of][number].end])));
    }
    return differing.get(passage)[side];
  }

  /** A piece of a passage's text that starts at a place of it, with the words that differ marked. */
  function withDifferences(text, start, places, make) {
    const end = start + text.length, made = [];
    let at = start;
    for (const [from, to] of places) {
      if (to <= start || from >= end) continue;
      const [first, last] = [Math.max(from, start), Math.min(to, end)];
      if (first > at) made.push(...make(text.slice(at - start, first - start)));
      made.push(element("span", { class: "differs" }, text.slice(first - start, last - start)));
      at = last;
    }
    if (at < end) made.push(...make(text.slice(at - start)));
    return made;
  }

  const withGaps = (text) => text.split(/(\n[ \t]*\n\s*)/).map((part, odd) => (odd % 2 ? element("span", { class: "gap" }, part) : part));

  /** One of the two texts: blocks that are drawn when they come near the visible part, and dropped when they are far away. */
  class Pane {
    constructor(id, side) {
      this.root = byId(id);
      this.side = side;
      this.text = this.root.querySelector(".text");
      this.map = this.root.querySelector(".map");
      this.quietUntil = 0;
      this.watcher = new IntersectionObserver((seen) => this.onSeen(seen), { root: this.text, rootMargin: `${MARGIN_PIXELS}px 0px` });
      this.text.addEventListener("click", (event) => this.onClick(event));
      this.map.addEventListener("click", (event) => this.onMap(event));
    }

    load(blocks, id, { words, counts }) {
      this.blocks = blocks;
      this.root.querySelector("h2 bdi").textContent = id;
      this.root.querySelector("h2 bdi").title = id;
      this.root.querySelector("h2 small").textContent = counts < words ? `${counts.toLocaleString("en")} of ${counted(words, "word")} count` : counted(words, "word");
      this.places = new Map();
      blocks.forEach((block, at) => {
        for (let segment = 1; segment < block.length; segment++) {
          for (const passage of passagesOf(block[segment])) {
            const place = this.places.get(passage);
            if (place) place.last = at;
            else this.places.set(passage, { first: at, segment, last: at });
          }
        }
      });
      this.text.classList.toggle("lines", !isWrapped(blocks));
      this.layOut(false);
    }

    /** Makes room for every block, without drawing any. */
    layOut(isAll) {
      this.watcher.disconnect();
      this.divs = [];
      const made = document.createDocumentFragment();
      for (let at = 0; at < this.blocks.length; at++) {
        if (this.blocks[at][0] === 0 || isAll) {
          made.append(this.room(at));
          continue;
        }
        const from = at;
        while (at + 1 < this.blocks.length && this.blocks[at + 1][0] > 0) at++;
        made.append(this.fold(from, at + 1));
      }
      if (!this.blocks.length) made.append(element("p", { class: "nothing" }, "There is no text."));
      this.text.replaceChildren(made);
      this.drawMap();
    }

    room(at) {
      const chars = this.blocks[at].slice(1).reduce((sum, segment) => sum + textOf(segment).length, 0);
      const width = Math.max(200, Math.min(this.text.clientWidth - 52, 68 * CHAR_PIXELS));
      const div = element("div", { class: "block", dir: "auto" });
      div.style.height = `${Math.ceil((chars * CHAR_PIXELS) / width) * LINE_PIXELS}px`;
      Object.assign(div, { at, isDrawn: false });
      this.divs[at] = div;
      this.watcher.observe(div);
      return div;
    }

    fold(from, to) {
      const words = this.blocks.slice(from, to).reduce((sum, block) => sum + block[0], 0);
      const made = element("button", { type: "button", class: "fold" }, `${counted(words, "word")} that are not shared – show`);
      made.addEventListener("click", () => {
        const rooms = this.blocks.slice(from, to).map((_, at) => this.room(from + at));
        made.replaceWith(...rooms);
        this.draw(from);
      });
      return made;
    }

    onSeen(seen) {
      for (const { target, isIntersecting } of seen) {
        if (isIntersecting) this.draw(target.at);
        else this.forget(target);
      }
    }

    draw(at) {
      const div = this.divs[at];
      if (!div || div.isDrawn) return;
      div.isDrawn = true;
      div.replaceChildren(...this.blocks[at].slice(1).map((segment, index) => this.segment(at, index + 1, segment)));
      div.style.height = "";
    }

    forget(div) {
      if (!div.isDrawn) return;
      div.style.height = `${div.offsetHeight}px`;
      div.isDrawn = false;
      div.replaceChildren();
    }

    /** Redraws the drawn blocks after another source was selected. */
    drawAgain() {
      for (const div of this.divs) {
        if (div && div.isDrawn) {
          div.isDrawn = false;
          this.draw(div.at);
        }
      }
      this.drawMap();
    }

    segment(at, index, segment) {
      const text = textOf(segment);
      const content = withGaps(text);
      const all = passagesOf(segment), here = all.filter(isHere);
      const out = typeof segment === "string" ? undefined : segment[2];
      if (!here.length && out) return element("span", { class: "out", title: `Not counted: ${out}` }, ...content);
      if (!all.length) return element("span", {}, ...content);
      if (!here.length) return element("span", { class: "other", "data-elsewhere": all[0], title: "Also found in another source" }, ...content);
      // Where passages overlap, the shortest would be hidden by the others.
      const length = (passage) => known(passage).words[this.side];
      const shown = here.reduce((best, passage) => (length(passage) < length(best) ? passage : best));
      const mark = element("mark", { "data-c": colourOf(shown), "data-all": here.join(" "), "data-passage": shown });
      mark.classList.toggle("active", here.some(isActive));
      if (out) {
        mark.classList.add("out");
        mark.title = `Not counted: ${out}`;
      }
      for (const passage of here) {
        const place = this.places.get(passage);
        if (place.first !== at || place.segment !== index) continue;
        mark.append(element("span", { class: "n", "data-c": colourOf(passage) }, numberOf(passage)));
      }
      const differ = differences(shown, this.side);
      mark.append(...(differ.length ? withDifferences(text, this.offsetIn(shown, at, index), differ, withGaps) : content));
      return mark;
    }

    /** The text of a passage on this side. */
    passageText(passage) {
      let text = "";
      this.eachPiece(passage, (piece) => (text += piece));
      return text;
    }

    /** How much of a passage comes before a segment. */
    offsetIn(passage, at, index) {
      let before = 0;
      this.eachPiece(passage, (piece, block, segment) => {
        if (block < at || (block === at && segment < index)) before += piece.length;
      });
      return before;
    }

    eachPiece(passage, each) {
      const place = this.places.get(passage);
      for (let at = place?.first ?? 0; at <= (place?.last ?? -1); at++) {
        for (let segment = 1; segment < this.blocks[at].length; segment++) {
          if (passagesOf(this.blocks[at][segment]).includes(passage)) each(textOf(this.blocks[at][segment]), at, segment);
        }
      }
    }

    marksOf(passage, at) {
      return [...(this.divs[at]?.querySelectorAll(`mark[data-all~="${passage}"]`) ?? [])];
    }

    /** Where a passage begins and ends, in pixels of the text. */
    extent(passage) {
      const { first, last } = this.places.get(passage);
      this.draw(first);
      this.draw(last);
      const [start, end] = [this.marksOf(passage, first)[0], this.marksOf(passage, last).at(-1)];
      if (!start || !end) return null;
      const zero = this.text.getBoundingClientRect().top - this.text.scrollTop;
      return { top: start.getBoundingClientRect().top - zero, bottom: end.getBoundingClientRect().bottom - zero };
    }

    /** How far into a passage something is, from 0 to 1. */
    into(passage, pixels) {
      const { top, bottom } = this.extent(passage);
      return Math.min(1, Math.max(0, (pixels - top) / Math.max(1, bottom - top)));
    }

    /** Scrolls until a place in a passage is `below` pixels from the top; `into` is from 0, its start, to 1, its end. */
    goTo(passage, { below, into } = { below: this.text.clientHeight * 0.25, into: 0 }) {
      if (!this.places.has(passage)) return;
      const { first } = this.places.get(passage);
      for (let at = first - 1; at <= first + 2; at++) this.draw(at);
      this.quietUntil = performance.now() + 300;
      const pin = () => {
        const extent = this.extent(passage);
        if (extent) this.text.scrollTop = extent.top + into * (extent.bottom - extent.top) - below;
      };
      pin();
      // The blocks that were drawn around it may be higher than estimated.
      requestAnimationFrame(() => requestAnimationFrame(pin));
    }

    setActive() {
      for (const mark of this.text.querySelectorAll("mark")) mark.classList.toggle("active", mark.dataset.all.split(" ").map(Number).some(isActive));
      for (const tick of this.map.children) tick.classList.toggle("active", Number(tick.dataset.passage) === active);
    }

    drawMap() {
      const ticks = source.passages.slice(0, MAP_MARKS).map((_, at) => {
        const passage = source.first + at, { places } = known(passage);
        const [start, end] = places.slice(2 * this.side, 2 * this.side + 2);
        const tick = element("i", { "data-c": colourOf(passage), "data-passage": passage });
        tick.style.top = `${100 * start}%`;
        tick.style.height = `${100 * (end - start)}%`;
        tick.classList.toggle("active", isActive(passage));
        return tick;
      });
      this.map.replaceChildren(...ticks);
    }

    onMap(event) {
      const box = this.map.getBoundingClientRect();
      const at = (event.clientY - box.top) / box.height;
      let nearest = null, least = Infinity;
      source.passages.forEach((_, index) => {
        const [start, end] = known(source.first + index).places.slice(2 * this.side, 2 * this.side + 2);
        const away = at < start ? start - at : at > end ? at - end : 0;
        if (away < least) [least, nearest] = [away, source.first + index];
      });
      if (nearest !== null) choose(nearest);
    }

    onClick(event) {
      const mark = event.target.closest("mark"), other = event.target.closest(".other");
      if (mark && !String(getSelection())) {
        const passage = Number(mark.dataset.passage);
        const below = Math.max(0, event.clientY - this.text.getBoundingClientRect().top);
        choose(passage, this, { below, into: this.into(passage, this.text.scrollTop + below) });
      } else if (other) {
        const passage = Number(other.dataset.elsewhere);
        showSource(meta.sources.findIndex((of) => passage >= of.first && passage < of.first + of.passages.length), passage);
      }
    }

    /** The other side follows: the passage at eye level stays beside its counterpart. */
    lead(other) {
      if (!byId("together").checked || performance.now() < this.quietUntil) return;
      const eye = this.text.scrollTop + this.text.clientHeight * 0.3;
      let best = null, least = Infinity;
      const seen = new Set([...this.text.querySelectorAll("mark")].map((mark) => Number(mark.dataset.passage)));
      for (const passage of seen) {
        const extent = this.extent(passage);
        if (!extent) continue;
        const away = eye < extent.top ? extent.top - eye : eye > extent.bottom ? eye - extent.bottom : 0;
        if (away < least) [least, best] = [away, { passage, extent }];
      }
      if (!best || least > 2 * this.text.clientHeight) return;
      const there = other.extent(best.passage);
      if (!there) return;
      const { top, bottom } = best.extent;
      const beyond = eye < top ? eye - top : eye > bottom ? eye - bottom : 0;
      other.quietUntil = performance.now() + 300;
      other.text.scrollTop = there.top + this.into(best.passage, eye) * (there.bottom - there.top) + beyond - other.text.clientHeight * 0.3;
    }
  }

  const left = new Pane("left", 0), right = new Pane("right", 1);

  function say() {
    const line = byId("passage");
    delete line.dataset.c;
    if (!source || !source.passages.length) return line.replaceChildren("These texts share no passage.");
    if (active === null) return line.replaceChildren(counted(source.passages.length, "passage"));
    const { kind, tokens, score } = known(active);
    line.dataset.c = colourOf(active);
    const of = source.passages.length > 1 ? ` of ${source.passages.length.toLocaleString("en")}` : "";
    line.replaceChildren(element("b", {}, numberOf(active)), `${of} · ${kind} · ${counted(tokens, "word")} in common · ${percent(score)} alike`);
  }

  /** Makes a passage the active one. The side it was chosen on stays where it is. */
  function choose(passage, from = null, where = undefined) {
    active = passage;
    for (const pane of [left, right]) {
      if (pane !== from) pane.goTo(passage, where);
      pane.setActive();
    }
    say();
    try {
      history.replaceState(null, "", meta.sources.length > 1 ? `#${rank + 1}.${numberOf(passage)}` : `#${numberOf(passage)}`);
    } catch { /* not from everywhere */ }
  }

  function step(by) {
    if (!source || !source.passages.length) return;
    const count = source.passages.length;
    const at = active === null ? (by > 0 ? 0 : count - 1) : (active - source.first + by + count) % count;
    choose(source.first + at);
  }

  function showSource(number, passage = null) {
    if (number < 0 || number >= meta.sources.length) return;
    [source, rank, active] = [meta.sources[number], number, null];
    // The words that differ are found from both texts.
    right.load(dataOf(source.text), source.id, source);
    if (!left.blocks) left.load(dataOf("text-document"), meta.document, meta);
    else left.drawAgain();
    byId("everything").checked = false;
    document.querySelectorAll("[data-source]").forEach((button) => {
      button.setAttribute("aria-current", Number(button.dataset.source) === number);
      if (Number(button.dataset.source) === number) button.scrollIntoView({ block: "nearest" });
    });
    byId("lines").checked = [left, right].every((pane) => pane.text.classList.contains("lines"));
    if (source.passages.length) choose(passage ?? source.first);
    else say();
  }

  function showEverything() {
    for (const pane of [left, right]) {
      pane.layOut(byId("everything").checked);
      if (active !== null) pane.goTo(active);
    }
  }

  function showLines() {
    for (const pane of [left, right]) {
      pane.text.classList.toggle("lines", byId("lines").checked);
      if (active !== null) pane.goTo(active);
    }
  }

  /** The text of a passage, as much of it as is printed. */
  function excerpt(pane, passage) {
    const whole = pane.passageText(passage), text = whole.slice(0, PRINTED_CHARS);
    const isFlowing = !pane.text.classList.contains("lines");
    const flow = (part) => [isFlowing ? part.replace(/(\S)[ \t]*\n(?![ \t]*\n)/g, "$1 ") : part];
    const made = withDifferences(text, 0, differences(passage, pane.side), flow);
    return whole.length > PRINTED_CHARS ? [...made, " […]"] : made;
  }

  /** Paper does not scroll: it gets the passages of the source that is shown, one below the other. */
  function print() {
    const heading = element("h2", {}, meta.sources.length > 1 ? `Passages from source ${rank + 1}` : "Passages");
    const names = element("div", { class: "names" }, ...[meta.document, source.id].map((id) => element("bdi", {}, id)));
    const made = source.passages.slice(0, PRINTED_PASSAGES).flatMap((_, at) => {
      const passage = source.first + at, { kind, tokens, score } = known(passage);
      const colour = { "data-c": colourOf(passage) };
      const title = element("h3", colour, element("b", {}, numberOf(passage)), ` ${kind} · ${counted(tokens, "word")} in common · ${percent(score)} alike`);
      const both = [left, right].map((pane) => element("p", { dir: "auto" }, ...excerpt(pane, passage)));
      return [title, element("div", { class: "both", ...colour }, ...both)];
    });
    const rest = source.passages.length - PRINTED_PASSAGES;
    if (rest > 0) made.push(element("p", {}, `${counted(rest, "more passage")} on the screen.`));
    byId("printed").replaceChildren(heading, names, ...made);
  }

  for (const [pane, other] of [[left, right], [right, left]]) {
    let isLeading = false, isAsked = false;
    // Only the side that the reader moves leads.
    for (const kind of ["wheel", "touchmove", "pointerdown", "keydown"]) {
      pane.text.addEventListener(kind, () => {
        isLeading = true;
        pane.quietUntil = 0;
        other.text.dispatchEvent(new Event("follow"));
      }, { passive: true });
    }
    pane.text.addEventListener("follow", () => (isLeading = false));
    pane.text.addEventListener("scroll", () => {
      if (!isLeading || isAsked) return;
      isAsked = true;
      requestAnimationFrame(() => {
        isAsked = false;
        pane.lead(other);
      });
    }, { passive: true });
  }
  const flip = (id, then) => () => {
    byId(id).checked = !byId(id).checked;
    then?.();
  };
  byId("next").addEventListener("click", () => step(1));
  byId("previous").addEventListener("click", () => step(-1));
  byId("everything").addEventListener("change", showEverything);
  byId("lines").addEventListener("change", showLines);
  document.querySelectorAll("[data-source]").forEach((button) => button.addEventListener("click", () => showSource(Number(button.dataset.source))));
  addEventListener("beforeprint", () => source && print());
  onKeys({
    n: () => step(1),
    p: () => step(-1),
    "]": () => showSource((rank + 1) % meta.sources.length),
    "[": () => showSource((rank + meta.sources.length - 1) % meta.sources.length),
    s: flip("together"),
    e: flip("everything", showEverything),
    l: flip("lines", showLines),
  });
  const [, asked, number] = /^#(?:(\d+)\.)?(\d+)$/.exec(location.hash) ?? [];
  const start = Math.min(Math.max(1, Number(asked ?? 1)), meta.sources.length) - 1;
  const chosen = meta.sources[start];
  if (!chosen) {
    source = { first: 0, passages: [] };
    left.load(dataOf("text-document"), meta.document, meta);
    say();
  } else {
    const isThere = Number(number ?? 1) >= 1 && Number(number ?? 1) <= chosen.passages.length;
    showSource(start, isThere ? chosen.first + Number(number ?? 1) - 1 : null);
  }
  document.documentElement.dataset.ready = "yes";
})();
