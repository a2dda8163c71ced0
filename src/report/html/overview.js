
(() => {
  const { ids, pairs } = dataOf("pairs");
  const PAGE_ROWS = 200, BINS = 20;
  const alike = (pair) => Math.max(pair[2], pair[3]);
  // What all names begin with says nothing of any.
  const isBelow = (folder) => ids.every((id) => id.startsWith(folder));
  let folder = (ids[0] ?? "").replace(/[^/]*$/, "");
  while (folder && !isBelow(folder)) folder = folder.replace(/[^/]*\/$/, "");
  const names = ids.map((id) => id.toLowerCase());
  const binOf = (pair) => (pair[4] === 0 ? -1 : Math.min(BINS - 1, Math.floor(alike(pair) * BINS)));
  const chosen = { key: "alike", isFalling: true, text: "", bin: null, document: null };
  let found = [], shown = 0;

  /** What a column is sorted by. */
  function valueOf(pair, key) {
    if (key === "alike") return alike(pair);
    return key < 2 ? names[pair[key]] : pair[key];
  }

  function isWanted(pair) {
    if (chosen.bin !== null && binOf(pair) !== chosen.bin) return false;
    if (chosen.document !== null && pair[0] !== chosen.document && pair[1] !== chosen.document) return false;
    return !chosen.text || names[pair[0]].includes(chosen.text) || names[pair[1]].includes(chosen.text);
  }

  function compare(one, two) {
    const [a, b] = [valueOf(one, chosen.key), valueOf(two, chosen.key)];
    const order = a < b ? -1 : a > b ? 1 : 0;
    return (chosen.isFalling ? -order : order) || (one[7] < two[7] ? -1 : 1);
  }

  function share(of) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [key, value] of Object.entries({ viewBox: "0 0 100 4", preserveAspectRatio: "none", class: "share", "aria-hidden": "true" })) svg.setAttribute(key, value);
    bar.setAttribute("width", 100 * of);
    bar.setAttribute("height", 4);
    svg.append(bar);
    return svg;
  }

  function row(pair) {
    const link = element("a", { href: pair[7] }, element("bdi", {}, ids[pair[0]].slice(folder.length)));
    const made = element("tr", {},
      element("td", {}, link),
      element("td", {}, element("bdi", {}, ids[pair[1]].slice(folder.length))),
      element("td", { class: "number alike" }, percent(alike(pair)), share(alike(pair))),
      element("td", { class: "number" }, percent(pair[2])),
      element("td", { class: "number" }, percent(pair[3])),
      element("td", { class: "number" }, pair[4].toLocaleString("en")),
      element("td", { class: "number" }, pair[5].toLocaleString("en")));
    made.addEventListener("click", (event) => {
      if (!event.target.closest("a") && !String(getSelection())) location.href = pair[7];
    });
    return made;
  }

  function showMore(count) {
    byId("rows").append(...found.slice(shown, shown + count).map(row));
    shown = Math.min(found.length, shown + count);
    byId("more").hidden = shown >= found.length;
  }

  function show() {
    found = pairs.filter(isWanted).sort(compare);
    shown = 0;
    byId("rows").replaceChildren();
    showMore(PAGE_ROWS);
    const isAll = found.length === pairs.length;
    byId("shown").textContent = isAll ? counted(pairs.length, "pair") : `${found.length.toLocaleString("en")} of ${counted(pairs.length, "pair")}`;
    if (folder) byId("shown").append(", names below ", element("bdi", {}, folder));
    byId("clear").hidden = isAll;
    for (const button of document.querySelectorAll("th button")) {
      const isChosen = button.dataset.key === String(chosen.key);
      if (isChosen) button.parentElement.setAttribute("aria-sort", chosen.isFalling ? "descending" : "ascending");
      else button.parentElement.removeAttribute("aria-sort");
    }
    for (const bin of document.querySelectorAll(".bin")) bin.classList.toggle("chosen", Number(bin.dataset.bin) === chosen.bin);
    for (const node of document.querySelectorAll(".node")) node.classList.toggle("chosen", Number(node.dataset.document) === chosen.document);
  }

  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => {
      const key = button.dataset.key === "alike" ? "alike" : Number(button.dataset.key);
      // Numbers are wanted from the largest on, names from A.
      chosen.isFalling = chosen.key === key ? !chosen.isFalling : key === "alike" || key > 1;
      chosen.key = key;
      show();
    });
  }
  for (const bin of document.querySelectorAll(".bin")) {
    bin.addEventListener("click", () => {
      chosen.bin = chosen.bin === Number(bin.dataset.bin) ? null : Number(bin.dataset.bin);
      show();
    });
  }
  for (const node of document.querySelectorAll(".node")) {
    const choose = () => {
      chosen.document = chosen.document === Number(node.dataset.document) ? null : Number(node.dataset.document);
      show();
    };
    node.addEventListener("click", choose);
    node.addEventListener("keydown", (event) => event.key === "Enter" && choose());
  }
  byId("name").addEventListener("input", () => {
    chosen.text = byId("name").value.toLowerCase();
    show();
  });
  byId("clear").addEventListener("click", () => {
    Object.assign(chosen, { text: "", bin: null, document: null });
    byId("name").value = "";
    show();
  });
  byId("more").addEventListener("click", () => showMore(PAGE_ROWS));
  // Paper has no button for more; two thousand rows are enough of it.
  addEventListener("beforeprint", () => showMore(Math.max(0, 2000 - shown)));
  onKeys({});
  show();
  document.documentElement.dataset.ready = "yes";
})();
