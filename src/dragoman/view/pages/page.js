
"use strict";
(() => {
  const one = (query, within = document) => within.querySelector(query);
  const all = (query, within = document) => [...within.querySelectorAll(query)];
  const turns = all("article.turn");
  const swaps = all("aside.swap");
  const search = one("#search");
  const found = one("#found");
  const help = one("#help");
  const filters = all(".filters button");
  let kind = "";
  let opened = [];

  // What can be searched: all but the raw wire, each message's own words read once.
  const words = new Map();
  const textOf = (turn) => {
    if (!words.has(turn)) {
      const parts = all("header, .said", turn).map((part) => part.textContent);
      words.set(turn, parts.join(" ").toLowerCase());
    }
    return words.get(turn);
  };

  const mark = (shown, wanted) => {
    if (!window.Highlight || !CSS.highlights) return;
    CSS.highlights.delete("found");
    if (!wanted) return;
    const ranges = [];
    for (const turn of shown) {
      const walker = document.createTreeWalker(one(".said", turn), NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const text = node.data.toLowerCase();
        if (text.length !== node.data.length) continue;
        for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
          const range = new Range();
          range.setStart(node, at);
          range.setEnd(node, at + wanted.length);
          ranges.push(range);
        }
      }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  };

  const unfold = (shown, wanted) => {
    opened.forEach((each) => { each.open = false; });
    opened = [];
    if (!wanted) return;
    for (const turn of shown) {
      for (const each of all(".said details:not([open])", turn)) {
        if (each.textContent.toLowerCase().includes(wanted)) {
          each.open = true;
          opened.push(each);
        }
      }
    }
  };

  const apply = () => {
    const wanted = search.value.trim().toLowerCase();
    const shown = turns.filter((turn) => {
      const fits = !kind || turn.dataset.kinds.split(" ").includes(kind);
      const holds = fits && (!wanted || textOf(turn).includes(wanted));
      turn.hidden = !holds;
      return holds;
    });
    for (const swap of swaps) swap.hidden = Boolean(wanted) || !["", "swap"].includes(kind);
    unfold(shown, wanted);
    mark(shown, wanted);
    found.textContent = wanted || kind ? `${shown.length} of ${turns.length}` : "";
    one("#no-match").hidden = shown.length > 0 || !turns.length;
  };

  const choose = (wanted) => {
    kind = wanted;
    for (const button of filters) button.setAttribute("aria-pressed", String(button.dataset.kind === kind));
    apply();
  };

  const here = () => one(".here");
  const go = (target) => {
    if (!target) return;
    here()?.classList.remove("here");
    target.classList.add("here");
    target.scrollIntoView({ block: "start" });
    target.focus({ preventScroll: true });
  };
  const step = (by) => {
    const shown = turns.filter((turn) => !turn.hidden);
    const at = shown.indexOf(here());
    go(shown[at < 0 ? (by > 0 ? 0 : shown.length - 1) : Math.min(shown.length - 1, Math.max(0, at + by))]);
  };
  const nextSwap = () => {
    const shown = swaps.filter((swap) => !swap.hidden);
    go(shown[(shown.indexOf(here()) + 1) % shown.length]);
  };

  const turnTheme = () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  };
  const foldThinking = () => {
    const folded = all("details.thinking");
    const open = folded.some((each) => !each.open);
    folded.forEach((each) => { each.open = open; });
  };
  const openRaw = () => {
    const raw = here() && one("details.raw", here());
    if (raw) raw.open = !raw.open;
  };

  // A request is kept without the lines that an earlier one begins with; it is put together when it is looked at.
  const whole = (block) => {
    const earlier = block.dataset.same && document.getElementById(block.dataset.same);
    if (!earlier) return block.textContent;
    return [...whole(earlier).split("\n").slice(0, Number(block.dataset.lines)), block.textContent].join("\n");
  };
  document.addEventListener("toggle", (event) => {
    const block = event.target.matches?.("details.raw[open]") && one("pre[data-same]", event.target);
    if (!block) return;
    const text = whole(block);
    delete block.dataset.same;
    block.textContent = text;
    one(".shared", event.target)?.remove();
  }, true);

  const keys = {
    j: () => step(1),
    k: () => step(-1),
    s: nextSwap,
    t: foldThinking,
    r: openRaw,
    d: turnTheme,
    "/": () => search.focus(),
    "?": () => help.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target === search) {
      if (event.key === "Escape") { search.value = ""; apply(); search.blur(); }
      if (event.key === "Enter") { search.blur(); step(1); }
      return;
    }
    if (event.target.closest?.("input, textarea, select, audio, video")) return;
    if (event.key === "Escape") { search.value = ""; choose(""); here()?.classList.remove("here"); return; }
    if (Object.hasOwn(keys, event.key)) { event.preventDefault(); keys[event.key](); }
  });

  search.addEventListener("input", apply);
  for (const button of filters) button.addEventListener("click", () => choose(button.dataset.kind));
  one("#theme").addEventListener("click", turnTheme);
  one("#keys").addEventListener("click", () => help.showModal());

  let printing = [];
  addEventListener("beforeprint", () => {
    printing = all(".said details:not([open]), .swap details:not([open])");
    printing.forEach((each) => { each.open = true; });
  });
  addEventListener("afterprint", () => printing.forEach((each) => { each.open = false; }));

  // The outline tells where one is.
  const entries = new Map(all(".outline a").map((link) => [link.hash.slice(1), link]));
  const watch = new IntersectionObserver((seen) => {
    for (const each of seen) {
      if (!each.isIntersecting) continue;
      for (const link of entries.values()) link.removeAttribute("aria-current");
      const link = entries.get(each.target.id);
      link?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  turns.forEach((turn) => watch.observe(turn));
  document.documentElement.dataset.ready = "true";
})();
