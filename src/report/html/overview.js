
(() => {
  const data = dataOf("data");
  const PAGE_ROWS = 100, PRINTED_ROWS = 2000, BINS = 20, FAMILY_SHARE = 0.9, FAMILY_SIZE = 3, NAMES_SHOWN = 3;
  const pageOf = (kind, number) => (number ? `${kind}-${String(number).padStart(6, "0")}.html` : null);
  // What all names begin with says nothing of any.
  const { ids } = data;
  const isBelow = (folder) => ids.every((id) => id.startsWith(folder));
  let folder = (ids[0] ?? "").replace(/[^/]*$/, "");
  while (folder && !isBelow(folder)) folder = folder.replace(/[^/]*\/$/, "");
  const names = ids.map((id) => id.slice(folder.length));
  const keys = names.map((name) => name.toLowerCase());

  const documents = data.documents.map(([id, words, share, isExact, sources, best, flags, page, copies]) =>
    ({ id, words, share, isExact: Boolean(isExact), sources, best, flags, page: pageOf("document", page), copies, members: [id, ...copies] }));
  const pairs = data.pairs.map(([a, b, ofA, ofB, passages, longest, tokens, page], at) =>
    ({ at, a, b, ofA, ofB, alike: Math.max(ofA, ofB), passages, longest, tokens, isExact: passages >= 0, page: pageOf("pair", page) }));
  const pageOfDocument = new Map(documents.filter((row) => row.page).flatMap((row) => row.members.map((id) => [id, row.page])));

  /** Documents of which each has nearly all of the next one, by the number of the first; union by the lower number. */
  const family = ids.map((_, id) => id);
  const rootOf = (id) => {
    while (family[id] !== id) id = family[id] = family[family[id]];
    return id;
  };
  const join = (one, two) => {
    const [a, b] = [rootOf(one), rootOf(two)];
    family[Math.max(a, b)] = Math.min(a, b);
  };
  for (const pair of pairs) if (Math.min(pair.ofA, pair.ofB) >= FAMILY_SHARE) join(pair.a, pair.b);
  for (const row of documents) row.copies.forEach((copy) => join(row.id, copy));
  const sizes = new Map();
  ids.forEach((_, id) => sizes.set(rootOf(id), (sizes.get(rootOf(id)) ?? 0) + 1));
  const isFamily = (id) => sizes.get(rootOf(id)) >= FAMILY_SIZE;

  const binOf = (pair) => (pair.passages === 0 ? -1 : Math.min(BINS - 1, Math.floor(pair.alike * BINS)));
  const chosen = { text: "", bin: null, document: null };
  const isAll = () => !chosen.text && chosen.bin === null && chosen.document === null;
  const hasText = (id) => keys[id].includes(chosen.text);
  const copiesOf = new Map(documents.flatMap((row) => row.members.map((id) => [id, row.members])));

  function share(of) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [key, value] of Object.entries({ viewBox: "0 0 100 4", preserveAspectRatio: "none", class: "share", "aria-hidden": "true" })) svg.setAttribute(key, value);
    bar.setAttribute("width", 100 * Math.min(1, of));
    bar.setAttribute("height", 4);
    svg.append(bar);
    return svg;
  }
  const about = (isExact, of) => (isExact || of <= 0 ? percent(of) : `about ${percent(of)}`);
  const nameOf = (id) => element("bdi", { title: ids[id] }, names[id]);
  const linked = (href, content) => (href ? element("a", { href }, content) : content);
  const cell = (...content) => element("td", {}, ...content);
  const number = (...content) => element("td", { class: "number" }, ...content);

  /** A share and its bar; nothing needs no bar. */
  const amount = (isExact, of) => element("td", { class: `number alike${of > 0 ? "" : " none"}` }, about(isExact, of), ...(of > 0 ? [share(of)] : []));

  /** Text that a spreadsheet takes for text: not for a formula. */
  const csvText = (text) => `"${(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
  const csvShare = (of) => String(Math.round(1e6 * of) / 1e6);

  function save(name, rows) {
    const text = `\ufeff${rows.map((row) => row.join(",")).join("\r\n")}\r\n`;
    const href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
    const link = element("a", { href, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(href), 10000);
  }

  /** A table that is filtered, sorted and shown piece by piece. */
  class Table {
    constructor(id, { noun, sort, fold, row, isWanted, valueOf, csv }) {
      Object.assign(this, { noun, fold, row, isWanted, valueOf, csv, id });
      this.root = byId(id);
      this.body = this.root.tBodies[0];
      this.more = byId(`${id}-more`);
      this.sort = sort;
      this.open = new Set();
      for (const button of this.root.querySelectorAll("th button")) button.addEventListener("click", () => this.sortBy(button.dataset.key));
      this.more.addEventListener("click", () => this.showMore(PAGE_ROWS));
      byId(`${id}-csv`).addEventListener("click", () => save(`${id}.csv`, this.csv(this.found)));
    }

    sortBy(key) {
      // Numbers are wanted from the largest on, names from A.
      const isText = ["name", "a", "b"].includes(key);
      this.sort = { key, isFalling: this.sort.key === key ? !this.sort.isFalling : !isText };
      this.show();
    }

    show() {
      const { key, isFalling } = this.sort;
      const sorted = this.isWanted.map((row) => [this.valueOf(row, key), row]);
      sorted.sort(([a, one], [b, two]) => {
        const order = a < b ? -1 : a > b ? 1 : 0;
        return (isFalling ? -order : order) || one.at - two.at;
      });
      this.found = sorted.map(([, row]) => row);
      this.groups = this.fold(this.found);
      this.shown = 0;
      this.body.replaceChildren();
      this.showMore(PAGE_ROWS);
      for (const button of this.root.querySelectorAll("th button")) {
        if (button.dataset.key === key) button.parentElement.setAttribute("aria-sort", isFalling ? "descending" : "ascending");
        else button.parentElement.removeAttribute("aria-sort");
      }
    }

    showMore(count) {
      for (const group of this.groups.slice(this.shown, this.shown + count)) this.body.append(...this.rowsOf(group));
      this.shown = Math.min(this.groups.length, this.shown + count);
      this.more.hidden = this.shown >= this.groups.length;
    }

    /** The first row of a group, and the others when it is open. */
    rowsOf(group) {
      const [first, ...rest] = group;
      const made = this.row(first, rest);
      if (!rest.length) return [made];
      const button = element("button", { type: "button", class: "open", "aria-expanded": "false" }, this.foldLabel(rest));
      const others = () => rest.map((item) => {
        const row = this.row(item, []);
        row.classList.add("member");
        return row;
      });
      let open = [];
      button.addEventListener("click", () => {
        if (open.length) open.forEach((row) => row.remove());
        open = open.length ? [] : others();
        made.after(...open);
        button.setAttribute("aria-expanded", String(open.length > 0));
      });
      made.cells[0].append(button);
      return [made];
    }

    foldLabel(rest) {
      return `and ${counted(rest.length, `more ${this.noun}`)}`;
    }
  }

  function clickable(row, href) {
    if (!href) return row;
    row.classList.add("link");
    row.addEventListener("click", (event) => {
      if (!event.target.closest("a, button") && !String(getSelection())) location.href = href;
    });
    return row;
  }

  documents.forEach((row, at) => Object.assign(row, { at }));
  const documentTable = new Table("documents", {
    noun: "near copy",
    sort: { key: "share", isFalling: true },
    valueOf: (row, key) => ({ name: keys[row.id], flags: row.flags.join("; ") }[key] ?? row[key]),
    fold(found) {
      const groups = new Map();
      for (const row of found) {
        const key = isFamily(row.id) ? rootOf(row.id) : `d${row.id}`;
        if (groups.has(key)) groups.get(key).push(row);
        else groups.set(key, [row]);
      }
      return [...groups.values()];
    },
    row(row, rest) {
      const first = cell(linked(row.page, nameOf(row.id)));
      if (row.copies.length) {
        const shown = row.copies.slice(0, NAMES_SHOWN).flatMap((id, at) => [at ? ", " : "", nameOf(id)]);
        const others = row.copies.length - NAMES_SHOWN;
        first.append(element("small", {}, "the same words: ", ...shown, others > 0 ? ` and ${others.toLocaleString("en")} more` : ""));
      }
      if (rest.length) {
        const shown = rest.slice(0, NAMES_SHOWN).flatMap((other, at) => [at ? ", " : "", nameOf(other.id)]);
        first.append(element("small", {}, "nearly the same: ", ...shown, rest.length > NAMES_SHOWN ? " …" : ""));
      }
      const best = row.best.flatMap(([id, of], at) => [at ? element("br") : "", linked(pageOfDocument.get(id), nameOf(id)), ` ${percent(of)}`]);
      const flags = row.flags.map((flag) => element("span", { class: "flag" }, flag));
      return clickable(element("tr", {}, first,
        amount(row.isExact, row.share),
        element("td", { class: "best" }, ...best),
        number(row.sources.toLocaleString("en")), number(row.words ? row.words.toLocaleString("en") : ""), cell(...flags)), row.page);
    },
    csv: (found) => [
      ["document", "share", "estimate", "others", "best_source", "best_source_adds", "words", "same_words_as", "notes"],
      ...found.flatMap((row) => row.members.map((id) => {
        const [source, adds] = row.best[0] ?? [null, null];
        const same = row.members.filter((other) => other !== id).map((other) => ids[other]);
        return [csvText(ids[id]), csvShare(row.share), !row.isExact, row.sources, source === null ? "" : csvText(ids[source]), adds === null ? "" : csvShare(adds), row.words, csvText(same.join("; ")), csvText(row.flags.join("; "))];
      })),
    ],
  });
  documentTable.foldLabel = (rest) => `show ${rest.length === 1 ? "it" : `all ${rest.length.toLocaleString("en")}`}`;

  const pairTable = new Table("pairs", {
    noun: "pair",
    sort: { key: "alike", isFalling: true },
    valueOf: (pair, key) => (key === "a" || key === "b" ? keys[pair[key]] : pair[key]),
    fold(found) {
      if (!byId("families").checked) return found.map((pair) => [pair]);
      const groups = new Map();
      for (const pair of found) {
        const is = isFamily(pair.a) || isFamily(pair.b);
        const key = is ? [rootOf(pair.a), rootOf(pair.b)].sort((one, two) => one - two).join() : `p${pair.at}`;
        if (groups.has(key)) groups.get(key).push(pair);
        else groups.set(key, [pair]);
      }
      return [...groups.values()];
    },
    row(pair) {
      return clickable(element("tr", {},
        cell(linked(pair.page, nameOf(pair.a))), cell(nameOf(pair.b)),
        amount(pair.isExact, pair.alike),
        number(percent(pair.ofA)), number(percent(pair.ofB)),
        number(pair.isExact ? pair.passages.toLocaleString("en") : "–"), number(pair.isExact ? pair.longest.toLocaleString("en") : "–")), pair.page);
    },
    csv: (found) => [
      ["first", "second", "of_first", "of_second", "estimate", "passages", "longest_words", "words_in_common", "page"],
      ...found.map((pair) => [csvText(ids[pair.a]), csvText(ids[pair.b]), csvShare(pair.ofA), csvShare(pair.ofB), !pair.isExact,
        ...(pair.isExact ? [pair.passages, pair.longest, pair.tokens] : ["", "", ""]), csvText(pair.page ?? "")]),
    ],
  });
  pairTable.foldLabel = (rest) => `and ${counted(rest.length, "more pair")} of near copies`;

  const nodes = [...document.querySelectorAll(".node")];
  const bins = [...document.querySelectorAll(".bin[role]")];

  function isWantedPair(pair) {
    if (chosen.bin !== null && binOf(pair) !== chosen.bin) return false;
    if (chosen.document !== null) {
      const members = copiesOf.get(chosen.document) ?? [chosen.document];
      if (!members.includes(pair.a) && !members.includes(pair.b)) return false;
    }
    return !chosen.text || hasText(pair.a) || hasText(pair.b);
  }

  function show() {
    const wanted = pairs.filter(isWantedPair);
    const within = chosen.bin === null && chosen.document === null ? null : new Set(wanted.flatMap(({ a, b }) => [a, b]));
    documentTable.isWanted = documents.filter((row) => (!within || row.members.some((id) => within.has(id))) && (!chosen.text || row.members.some(hasText)));
    pairTable.isWanted = wanted;
    documentTable.show();
    pairTable.show();
    const of = (found, all, noun) => (found === all ? counted(all, noun) : `${found.toLocaleString("en")} of ${counted(all, noun)}`);
    const count = (rows) => rows.reduce((sum, row) => sum + row.members.length, 0);
    byId("documents-shown").textContent = of(count(documentTable.found), count(documents), "document");
    if (data.unlisted) byId("documents-shown").append(`; ${counted(data.unlisted, "document")} that share nothing are not listed`);
    if (folder) byId("documents-shown").append(", below ", element("bdi", {}, folder));
    byId("pairs-shown").textContent = of(pairTable.found.length, pairs.length, "pair");
    const parts = [
      chosen.document === null ? [] : ["pairs of ", nameOf(chosen.document)],
      chosen.bin === null ? [] : [`pairs that are ${5 * chosen.bin} to ${5 * chosen.bin + 5}% alike`],
      chosen.text ? [`names with “${chosen.text}”`] : [],
    ].filter((part) => part.length);
    byId("filtered").replaceChildren(...parts.flatMap((part, at) => (at ? ["; ", ...part] : ["Only ", ...part])));
    byId("clear").hidden = isAll();
    for (const bin of bins) mark(bin, Number(bin.dataset.bin) === chosen.bin);
    for (const node of nodes) {
      const id = Number(node.dataset.document);
      mark(node, id === chosen.document);
      node.classList.toggle("found", Boolean(chosen.text) && hasText(id));
    }
    document.querySelector(".graph svg")?.classList.toggle("searched", Boolean(chosen.text));
    placeNames();
  }

  function mark(item, isChosen) {
    item.classList.toggle("chosen", isChosen);
    item.setAttribute("aria-pressed", String(isChosen));
  }

  /** One of several things has the focus: arrows go on to the next, Enter chooses. */
  function roving(items, choose) {
    items.forEach((item, at) => {
      item.setAttribute("tabindex", at ? "-1" : "0");
      item.addEventListener("click", () => choose(item));
      item.addEventListener("keydown", (event) => {
        const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (event.key === "Enter" || event.key === " ") choose(item);
        else if (by) {
          const next = items[(at + by + items.length) % items.length];
          item.setAttribute("tabindex", "-1");
          next.setAttribute("tabindex", "0");
          next.focus();
        } else return;
        event.preventDefault();
      });
    });
  }
  roving(bins, (bin) => {
    chosen.bin = chosen.bin === Number(bin.dataset.bin) ? null : Number(bin.dataset.bin);
    show();
  });
  roving(nodes, (node) => {
    chosen.document = chosen.document === Number(node.dataset.document) ? null : Number(node.dataset.document);
    show();
  });

  // ---- the graph: names keep their size, and none hides another
  const svg = document.querySelector(".graph svg");
  const whole = svg ? svg.getAttribute("viewBox").split(" ").map(Number) : null;
  let view = whole ? [...whole] : null;
  const NAME_PIXELS = 11, DOT_PIXELS = 5;
  const strength = new Map();
  for (const pair of pairs) for (const id of [pair.a, pair.b]) strength.set(id, Math.max(strength.get(id) ?? 0, pair.alike));

  function placeNames() {
    if (!svg || !svg.clientWidth) return;
    const unit = Math.max(view[2] / svg.clientWidth, view[3] / svg.clientHeight);
    svg.style.setProperty("--unit", unit);
    const size = NAME_PIXELS * unit, dot = DOT_PIXELS * unit;
    const taken = nodes.map((node) => {
      const [x, y] = [Number(node.dataset.x), Number(node.dataset.y)];
      return [x - dot, y - dot, x + dot, y + dot];
    });
    const isFree = ([left, top, right, bottom]) => left >= view[0] && right <= view[0] + view[2] && top >= view[1] && bottom <= view[1] + view[3]
      && taken.every(([l, t, r, b]) => right <= l || r <= left || bottom <= t || b <= top);
    const first = (node) => (node.classList.contains("chosen") ? 2 : 0) + (node.classList.contains("found") ? 1 : 0);
    const id = (node) => Number(node.dataset.document);
    const order = [...nodes].sort((one, two) => first(two) - first(one) || (strength.get(id(two)) ?? 0) - (strength.get(id(one)) ?? 0) || id(one) - id(two));
    for (const node of nodes) for (const circle of node.querySelectorAll("circle")) circle.setAttribute("r", circle.classList.contains("hit") ? 2 * dot : dot);
    for (const node of order) {
      const text = node.querySelector("text"), [x, y] = [Number(node.dataset.x), Number(node.dataset.y)];
      text.style.fontSize = `${size}px`;
      text.style.display = "";
      const width = text.getComputedTextLength();
      // With what goes above and below the letters.
      const gap = dot + 3 * unit, high = 1.3 * size;
      const places = [
        ["middle", x, y + gap + size, x - width / 2, y + gap],
        ["middle", x, y - gap - 0.3 * size, x - width / 2, y - gap - high],
        ["start", x + gap, y + 0.35 * size, x + gap, y - 0.65 * size],
        ["end", x - gap, y + 0.35 * size, x - gap - width, y - 0.65 * size],
      ];
      const place = places.find(([, , , left, top]) => isFree([left, top, left + width, top + high]));
      if (!place) {
        text.style.display = "none";
        continue;
      }
      const [anchor, textX, textY, left, top] = place;
      taken.push([left, top, left + width, top + high]);
      text.style.textAnchor = anchor;
      text.setAttribute("x", textX);
      text.setAttribute("y", textY);
    }
  }

  function look(to) {
    view = to;
    svg.setAttribute("viewBox", view.join(" "));
    placeNames();
  }
  /** Zooms by a factor, so that a place stays where it is. */
  function zoom(by, [x, y] = [view[0] + view[2] / 2, view[1] + view[3] / 2]) {
    const width = Math.min(whole[2], Math.max(whole[2] / 40, view[2] / by)), ratio = width / view[2];
    const size = [width, view[3] * ratio];
    const start = [x - (x - view[0]) * ratio, y - (y - view[1]) * ratio];
    look([...start.map((at, side) => Math.min(Math.max(whole[side], at), whole[side] + whole[2 + side] - size[side])), ...size]);
  }
  if (svg) {
    byId("zoom-in").addEventListener("click", () => zoom(1.5));
    byId("zoom-out").addEventListener("click", () => zoom(1 / 1.5));
    byId("zoom-all").addEventListener("click", () => look([...whole]));
    const placeOf = (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      return [at.x, at.y];
    };
    // The wheel alone scrolls the page.
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, placeOf(event));
    }, { passive: false });
    let from = null;
    svg.addEventListener("pointerdown", (event) => {
      if (!event.target.closest("a, .node") && view[2] < whole[2]) from = { place: placeOf(event), view: [...view] };
    });
    svg.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [x, y] = placeOf(event);
      const to = [view[0] + from.place[0] - x, view[1] + from.place[1] - y];
      look([...to.map((at, side) => Math.min(Math.max(whole[side], at), whole[side] + whole[2 + side] - view[2 + side])), view[2], view[3]]);
    });
    for (const end of ["pointerup", "pointerleave"]) svg.addEventListener(end, () => (from = null));
    // A node that gets the focus comes into view.
    for (const node of nodes) {
      node.addEventListener("focus", () => {
        const at = [Number(node.dataset.x), Number(node.dataset.y)];
        const isIn = at.every((place, side) => place >= view[side] && place <= view[side] + view[2 + side]);
        if (!isIn) look([...at.map((place, side) => Math.min(Math.max(whole[side], place - view[2 + side] / 2), whole[side] + whole[2 + side] - view[2 + side])), view[2], view[3]]);
      });
    }
    addEventListener("resize", placeNames);
  }

  if (data.unread.length) {
    byId("unread").hidden = false;
    byId("unread").querySelector("ul").append(...data.unread.map(([name, why]) => element("li", {}, element("bdi", {}, name), ` – ${why}`)));
  }
  byId("name").addEventListener("input", () => {
    chosen.text = byId("name").value.toLowerCase();
    show();
  });
  byId("clear").addEventListener("click", () => {
    Object.assign(chosen, { text: "", bin: null, document: null });
    byId("name").value = "";
    show();
    byId("name").focus();
  });
  byId("families").addEventListener("change", show);
  // Paper has no button for more; two thousand rows are enough of it.
  addEventListener("beforeprint", () => {
    for (const table of [documentTable, pairTable]) table.showMore(Math.max(0, PRINTED_ROWS - table.shown));
    placeNames();
  });
  onKeys({ "/": () => byId("name").focus() });
  // A page of a document leads to its pairs.
  const asked = /^#document=(.+)$/.exec(location.hash);
  if (asked) {
    try {
      const id = ids.indexOf(decodeURIComponent(asked[1]));
      if (id >= 0) chosen.document = id;
    } catch { /* not an id */ }
  }
  show();
  if (chosen.document !== null) byId("pairs-title").scrollIntoView();
  document.documentElement.dataset.ready = "yes";
})();
