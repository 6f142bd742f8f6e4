// cdp.ts: eyes and hands in the window, over the raw Chrome DevTools Protocol.
//
// Runs in    the MCP server's process, but in a bundle of its own (dist/cdp.js) that is loaded at the first window_* call;
//            one function of it, pageTools(), runs in every page and frame of the window, in a JavaScript world of its own.
// Started by mcp.ts, with the debugging port that the Host names.
// Touches    that port, on loopback; pictures in <workspace>/.devtools/logs/.
// Refuses    to act on a node that is gone, covered, disabled or one of several, and to leave a key held.
//
// A node is known by its uid: the letter of its document and a number. It lives in that world of the document, not here:
// so it is the same for every server that looks, and is never given to another node, also after a reload or in another window
// that takes its place. VS Code shows one file after the other in the same row of a list: what is shown is the node there, not the row.
//
// Sections   limits · types · in the page · the socket · targets and frames · the tree as text · keys ·
//            waiting · actions · pictures · console and network

import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import WebSocket from 'ws';
import { deadline, errorName, failure, isObject, matchingLines, messageOf, privateDir, type Cancellation } from './bootstrap.js';

// ---------------------------------------------------------------------------------------------------------- limits

const CONNECT_MS = 5000;
const COMMAND_MS = 10_000; // of the protocol
const LOOK_MS = 4000; // a frame tells what is in it within this, or is shown as silent; without the workbench there is nothing to show, so it may take as long as a command
const PREPARE_MS = 3000; // a node is in view, at rest and enabled within this
const QUIET_MS = 50; // nothing changes for so long: the window has settled
const HOVER_MS = 600; // what shows itself for a resting mouse does so within this: no event tells when
const IDLE_MS = 1000;
const IDLE_SHARE = 0.1; // of a processor: who uses less does nothing
const LOADING_MS = 5000; // a page that shows nothing yet is waited for
const SETTLE_MS = 1500; // a window that never rests is not waited for longer
const DRAG_MS = 1500;
const MESSAGE_CAP = 256 * 1024 * 1024;
const FRAMES_CAP = 64;
const LINES_CAP = 400; // of a snapshot
const TEXT_CAP = 24 * 1024; // its characters
const CHANGES_CAP = 40;
const CHANGES_TEXT = 3000;
const NAME_CAP = 160; // of a node, in a line
const FOUND_CAP = 20;
const RING_CAP = 1000; // messages and requests that are kept
const ENTRY_CAP = 2000; // characters of one of them
const ANSWER_CAP = 24 * 1024;
const BODY_CAP = 20 * 1024;
const VALUE_CAP = 32 * 1024;
const PICTURE_SIDE = 1568; // what a model can use of a picture
const PICTURE_AREA = 1_150_000;
const PICTURES_KEPT = 20;

// ----------------------------------------------------------------------------------------------------------- types

type Json = Record<string, unknown>;

/** What a page tells of a node: depth, number (0: none), role, name, states, value. */
type Told = [depth: number, id: number, role: string, name: string, states: string, value: string];
type Walk = { title: string; focused: boolean; more: number; rows: Told[] };

/** A node of the whole window. */
export type Row = { depth: number; uid: string; role: string; name: string; states: string; value: string };

type Box = { x: number; y: number; width: number; height: number };
type Prepared = { x: number; y: number; box: Box; what: string } | { problem: 'gone' | 'hidden' | 'disabled' | 'moving' | 'covered' | 'out of view'; by?: string; what?: string };
type Taker = { kind: 'text' | 'code' | 'select' | 'check' | 'none'; id: number; value: string; oneLine: boolean; what: string; options?: string[] };

type PageTools = {
  version: string; prefix: string; count: number; ids: WeakMap<Element, number>; elements: Map<number, WeakRef<Element>>; tenants: Map<number, string>; forget: FinalizationRegistry<number>;
  walk: (verbose: boolean, andWatch: boolean) => Walk;
  quiet: (quietMs: number, withinMs: number) => Promise<boolean>;
  prepare: (id: number, needsEnabled: boolean, withinMs: number) => Promise<Prepared>;
  origin: (id: number, x: number, y: number) => { x: number; y: number; isOutside: boolean; covered?: string } | undefined;
  idOf: (element: Element) => number;
  taker: (id: number) => Taker | undefined;
  focus: (id: number) => boolean;
  choose: (id: number, text: string) => boolean;
  scrollTo: (id: number) => Promise<boolean>;
  paste: (id: number, text: string) => boolean;
  expectDrag: () => void;
  dragged: () => boolean;
};

// ----------------------------------------------------------------------------------------------------- in the page
// Asking the browser for its accessibility tree takes several times as long as looking for oneself, and tells neither an
// editor's text nor what covers a button. So this function is put into each frame, beside the page's own code, which
// does not see it. It names nothing outside of itself: what runs there is its source, with the types taken off.

function pageTools(version: string, prefix: string): void {
  const world = globalThis as { vscodeDevtools?: PageTools }; // this world is ours alone
  const before = world.vscodeDevtools;
  const ids: PageTools['ids'] = before?.ids ?? new WeakMap();
  const elements: PageTools['elements'] = before?.elements ?? new Map();
  const tenants: PageTools['tenants'] = before?.tenants ?? new Map(); // what a row showed when its node got its id
  const forget: PageTools['forget'] = before?.forget ?? new FinalizationRegistry((id) => drop(id));

  const ROWS_CAP = 20_000;
  const TEXT_CAP = 400;
  const NOT_SHOWN = new Set(['script', 'style', 'template', 'noscript', 'head', 'link', 'meta', 'title', 'param', 'source', 'track', 'datalist']);
  const BLOCKS = new Set(['div', 'p', 'li', 'ul', 'ol', 'dl', 'dt', 'dd', 'pre', 'blockquote', 'section', 'article', 'header', 'footer', 'main', 'nav', 'aside', 'form', 'fieldset', 'table', 'tr', 'td', 'th', 'br', 'hr', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'address', 'figure', 'figcaption', 'details', 'summary', 'label']);
  const ROLES: Record<string, string> = {
    button: 'button', summary: 'button', textarea: 'textbox', h1: 'heading', h2: 'heading', h3: 'heading', h4: 'heading', h5: 'heading', h6: 'heading', ul: 'list', ol: 'list', menu: 'list', li: 'listitem', table: 'table', tr: 'row', td: 'cell',
    th: 'columnheader', nav: 'navigation', main: 'main', aside: 'complementary', article: 'article', dialog: 'dialog', details: 'group', fieldset: 'group', option: 'option', optgroup: 'group', progress: 'progressbar', meter: 'meter', output: 'status', hr: 'separator',
    iframe: 'frame', frame: 'frame', video: 'video', audio: 'audio', canvas: 'canvas', form: 'form', section: 'region', figure: 'figure', dfn: 'term', math: 'math',
  };
  const INPUTS: Record<string, string> = { button: 'button', submit: 'button', reset: 'button', image: 'button', file: 'button', color: 'button', checkbox: 'checkbox', radio: 'radio', range: 'slider', number: 'spinbutton', search: 'searchbox' };
  const INTERACTIVE = new Set(['button', 'link', 'textbox', 'searchbox', 'combobox', 'checkbox', 'radio', 'switch', 'slider', 'spinbutton', 'tab', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'option', 'treeitem', 'listbox', 'clickable']);
  const KEPT = new Set(['dialog', 'alertdialog', 'alert', 'menu', 'tree', 'grid', 'treegrid', 'table', 'heading', 'listitem', 'row', 'columnheader', 'rowheader', 'radiogroup', 'progressbar', 'meter', 'tooltip', 'frame', 'video', 'audio']); // with or without a name
  const NAMED = new Set(['region', 'group', 'navigation', 'list', 'form', 'complementary', 'search', 'article', 'figure', 'log', 'feed', 'application', 'img', 'canvas', 'gridcell', 'cell', 'status', 'timer', 'math']); // where they have one
  const FROM_CONTENT = new Set(['button', 'link', 'tab', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'option', 'treeitem', 'checkbox', 'radio', 'switch', 'heading', 'tooltip', 'columnheader', 'rowheader', 'row', 'clickable']);
  const WHOLE = new Set(['button', 'link', 'tab', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'option', 'treeitem', 'checkbox', 'radio', 'switch']); // their name stands for all that is written in them
  const PARTS = 'a[href], button, input, select, textarea, [role], [tabindex], [contenteditable]';
  const DRAWN = new Set(['margin', 'view-lines', 'view-overlays', 'view-rulers', 'cursors-layer', 'minimap', 'decorationsOverviewRuler', 'scrollbar', 'scroll-decoration', 'native-edit-context', 'inputarea', 'ime-text-area', 'lines-decorations']); // what an editor is made of, beside its widgets

  // ---- what a node is

  const tidy = (text: string): string => text.replace(/[\ue000-\uf8ff]|[\udb80-\udbff][\udc00-\udfff]/g, '').replace(/\s+/g, ' ').trim(); // without the signs of icon fonts
  const cut = (text: string, cap: number): string => (text.length > cap ? `${text.slice(0, cap)}… (${text.length} characters)` : text);
  const attribute = (element: Element, name: string): string => element.getAttribute(name) ?? '';

  function idOf(element: Element): number {
    const tenant = tenantOf(element);
    const known = ids.get(element);
    if (known !== undefined && (tenants.get(known) ?? '') === tenant) return known;
    if (known !== undefined) drop(known);
    const id = ++self.count;
    ids.set(element, id);
    elements.set(id, new WeakRef(element));
    if (tenant) tenants.set(id, tenant);
    forget.register(element, id);
    return id;
  }

  function elementOf(id: number): Element | undefined {
    const element = elements.get(id)?.deref();
    return element && tenantOf(element) === (tenants.get(id) ?? '') ? element : undefined;
  }

  function drop(id: number): void {
    elements.delete(id);
    tenants.delete(id);
  }

  /** What is shown in a row, tab or breadcrumb that VS Code uses again for others; '' elsewhere. */
  function tenantOf(element: Element): string {
    const row = element.closest('.monaco-list-row, .tab[data-resource-name], .monaco-breadcrumb-item');
    if (!row) return '';
    const key = row.querySelector('[data-key]'); // of a setting
    if (key) return attribute(key, 'data-key');
    const icon = row.querySelector('.monaco-icon-label[aria-label]'); // a file's path, and what is the matter with it
    return `${attribute(row, 'data-resource-name') || attribute(row, 'aria-label')} ${icon ? attribute(icon, 'aria-label').split(' • ')[0] : ''}`;
  }

  /** The children as they are shown: those of a shadow tree, and those that are put into a slot. */
  function childrenOf(element: Element): ArrayLike<Node> {
    if (element.shadowRoot) return element.shadowRoot.childNodes;
    if (element.localName === 'slot') {
      const assigned = (element as HTMLSlotElement).assignedNodes(); // by its name
      if (assigned.length) return assigned;
    }
    return element.childNodes;
  }

  const parentOf = (node: Node): Node | null => (node as Element).assignedSlot ?? node.parentNode ?? (node as ShadowRoot).host ?? null; // whichever it is
  const isHiddenTree = (element: Element): boolean => attribute(element, 'aria-hidden') === 'true' || element.hasAttribute('inert') || (!element.checkVisibility() && getComputedStyle(element).display !== 'contents');

  function deepActive(): Element | null {
    let active = document.activeElement;
    while (active?.shadowRoot?.activeElement) active = active.shadowRoot.activeElement;
    return active;
  }

  function roleOf(element: Element): string {
    const given = attribute(element, 'role').trim().split(/\s+/)[0] ?? '';
    if (given === 'presentation' || given === 'none') return isFocusable(element) ? implicitRole(element) : '';
    return given && given !== 'generic' ? (given === 'image' ? 'img' : given) : implicitRole(element);
  }

  function implicitRole(element: Element): string {
    const tag = element.localName;
    if (tag === 'a' || tag === 'area') return element.hasAttribute('href') ? 'link' : '';
    if (tag === 'input') return attribute(element, 'type') === 'hidden' ? '' : element.hasAttribute('list') ? 'combobox' : (INPUTS[attribute(element, 'type').toLowerCase()] ?? 'textbox');
    if (tag === 'select') return (element as HTMLSelectElement).multiple || (element as HTMLSelectElement).size > 1 ? 'listbox' : 'combobox';
    if (tag === 'img') return element.hasAttribute('alt') && attribute(element, 'alt') === '' ? '' : 'img';
    if (tag === 'svg') return [...element.children].some((child) => child.localName === 'title') ? 'img' : '';
    if (isEditable(element) && !isEditable(element.parentElement)) return 'textbox';
    return ROLES[tag] ?? '';
  }

  const isEditable = (element: Element | null): boolean => element !== null && (element as HTMLElement).isContentEditable === true;
  const isFocusable = (element: Element): boolean => (element as HTMLElement).tabIndex >= 0; // undefined on others
  const isDisabled = (element: Element): boolean => element.matches(':disabled') || element.closest('[aria-disabled="true"]') !== null;

  function nameOf(element: Element, role: string): string {
    const root = element.getRootNode() as Document | ShadowRoot; // it is connected
    const labels = attribute(element, 'aria-labelledby').split(/\s+/).filter(Boolean).map((id) => root.getElementById?.(id)).filter((one) => one !== null && one !== undefined);
    const labelled = tidy(labels.map((one) => tidy(attribute(one, 'aria-label')) || contentOf(one, 0)).join(' '));
    const isContent = FROM_CONTENT.has(role) || (role === 'listitem' && !element.querySelector(PARTS));
    return labelled || tidy(attribute(element, 'aria-label')) || nativeName(element, role) || (isContent ? tidy(contentOf(element, 0)) : '') || tidy(attribute(element, 'title')) || tidy(attribute(element, 'placeholder') || attribute(element, 'aria-placeholder'));
  }

  function nativeName(element: Element, role: string): string {
    const tag = element.localName;
    if (tag === 'img' || tag === 'area' || attribute(element, 'type') === 'image') return tidy(attribute(element, 'alt'));
    if (tag === 'svg') return tidy([...element.children].find((child) => child.localName === 'title')?.textContent ?? '');
    if (tag === 'input' || tag === 'select' || tag === 'textarea' || tag === 'progress' || tag === 'meter' || tag === 'output') {
      const label = tidy([...((element as HTMLInputElement).labels ?? [])].map((one) => contentOf(one, 0)).join(' '));
      const type = attribute(element, 'type');
      return label || (role === 'button' && type !== 'file' && type !== 'color' ? tidy((element as HTMLInputElement).value) || { submit: 'Submit', reset: 'Reset' }[type] || '' : '');
    }
    const inside = { fieldset: 'legend', table: 'caption', figure: 'figcaption' }[tag];
    return inside ? tidy([...element.children].find((child) => child.localName === inside)?.textContent ?? '') : '';
  }

  /** The text in a node, as it would be read out. */
  function contentOf(node: Node, depth: number): string {
    if (node.nodeType === 3) return node.nodeValue ?? '';
    if (node.nodeType !== 1 || depth > 40) return '';
    const element = node as Element; // nodeType says so
    const tag = element.localName;
    if (NOT_SHOWN.has(tag) || (depth > 0 && isHiddenTree(element))) return '';
    if (depth > 0) {
      const label = attribute(element, 'aria-label');
      if (label) return ` ${label} `;
      if (tag === 'img') return ` ${attribute(element, 'alt')} `;
      if (tag === 'select' || tag === 'textarea' || tag === 'iframe') return ' ';
      if (tag === 'input') return ['button', 'submit', 'reset'].includes(attribute(element, 'type')) ? ` ${(element as HTMLInputElement).value} ` : ' ';
      if (tag === 'svg') return nativeName(element, '');
    }
    let text = '';
    const children = childrenOf(element);
    for (let i = 0; i < children.length && text.length < 4 * TEXT_CAP; i++) text += contentOf(children[i] as Node, depth + 1); // i is within
    return BLOCKS.has(tag) ? ` ${text} ` : text;
  }

  function statesOf(element: Element, role: string, active: Element | null, pointedAt: Element | null): string {
    const states: string[] = [];
    const is = (name: string): string => attribute(element, `aria-${name}`);
    const input = element as HTMLInputElement; // the members below are undefined on others
    if (element === active && document.hasFocus()) states.push('focused');
    if (element === pointedAt) states.push('active');
    if (isDisabled(element)) states.push('disabled');
    if (role === 'checkbox' || role === 'radio' || role === 'switch' || role === 'menuitemcheckbox' || role === 'menuitemradio') {
      const checked = element.localName === 'input' ? (input.indeterminate ? 'mixed' : String(input.checked)) : is('checked');
      states.push(checked === 'true' ? 'checked' : checked === 'mixed' ? 'mixed' : 'unchecked');
    }
    if (is('selected') === 'true' || (element.localName === 'option' && (element as HTMLOptionElement).selected)) states.push('selected');
    if (is('expanded') === 'true' || (element.localName === 'summary' && element.parentElement?.hasAttribute('open'))) states.push('expanded');
    else if ((is('expanded') === 'false' && role !== 'tab') || element.localName === 'summary') states.push('collapsed');
    if (is('pressed') === 'true') states.push('pressed');
    if (input.readOnly === true || is('readonly') === 'true') states.push('readonly');
    if (input.required === true || is('required') === 'true') states.push('required');
    if (is('invalid') === 'true') states.push('invalid');
    if (is('busy') === 'true') states.push('busy');
    const level = role === 'heading' ? is('level') || /^h([1-6])$/.exec(element.localName)?.[1] : '';
    if (level) states.push(`level=${level}`);
    return states.join(' ');
  }

  function valueOf(element: Element, role: string): string {
    const tag = element.localName;
    if (tag === 'select') return tidy([...(element as HTMLSelectElement).selectedOptions].map((one) => one.label).join(', '));
    if (tag === 'input' && ['textbox', 'searchbox', 'combobox', 'spinbutton', 'slider'].includes(role)) return attribute(element, 'type') === 'password' ? '•'.repeat((element as HTMLInputElement).value.length) : (element as HTMLInputElement).value;
    if (tag === 'textarea') return (element as HTMLTextAreaElement).value;
    if (role === 'textbox' && isEditable(element)) return (element as HTMLElement).innerText;
    if (tag === 'progress' || tag === 'meter') return String((element as HTMLProgressElement).value);
    return ['slider', 'spinbutton', 'progressbar', 'meter', 'separator', 'scrollbar'].includes(role) ? attribute(element, 'aria-valuetext') || attribute(element, 'aria-valuenow') : '';
  }

  // ---- the tree

  type Said = { includes: (text: string) => boolean }; // what the name above a node says
  const EVERYTHING: Said = { includes: () => true };

  /** All that is shown. With `andWatch` what changes from now on is noticed. */
  function walk(verbose: boolean, andWatch: boolean): Walk {
    stopWatching();
    const rows: Told[] = [];
    let more = 0;
    let pending = ''; // text of the block that is being read
    let pendingAt: Element | null = null;
    const active = deepActive();
    const pointedAt = active ? ((active.getRootNode() as Document).getElementById?.(attribute(active, 'aria-activedescendant')) ?? null) : null;

    function push(depth: number, element: Element | null, role: string, name: string, states = '', value = ''): void {
      if (rows.length >= ROWS_CAP) more++;
      else rows.push([depth, element ? idOf(element) : 0, role, verbose ? name : cut(name, TEXT_CAP), states, cut(value, verbose ? 4000 : TEXT_CAP)]);
    }

    /** The text that was read is a row of its own, unless the name above says it already. */
    function flush(depth: number, named: Said): void {
      const text = tidy(pending);
      const at = pendingAt;
      pending = '';
      pendingAt = null;
      if (text && !named.includes(text)) push(depth, at, 'text', text);
    }

    function visitChildren(element: Element, depth: number, named: Said, isPointed: boolean): void {
      const children = childrenOf(element);
      for (let i = 0; i < children.length; i++) {
        const child = children[i] as Node; // i is within
        if (child.nodeType === 3) {
          if (child.nodeValue?.trim() && !pendingAt) pendingAt = element;
          pending += child.nodeValue;
        } else if (child.nodeType === 1) visit(child as Element, depth, named, isPointed); // nodeType says so
      }
    }

    function visit(element: Element, depth: number, named: Said, isPointed: boolean): void {
      const tag = element.localName;
      if (NOT_SHOWN.has(tag) || (isHiddenTree(element) && element !== active)) return;
      const { classList } = element;
      if (classList.contains('monaco-editor') && classList.contains('no-user-select')) return editor(element, depth, named);
      if (classList.contains('xterm')) return terminal(element, depth, named);
      if (classList.contains('monaco-aria-container')) return; // says again what is shown elsewhere
      const isBlock = BLOCKS.has(tag);
      let role = roleOf(element);
      if (role === '' && !isPointed && isOffered(element)) role = 'clickable';
      if (isBlock || role) flush(depth, named);
      const name = role && (INTERACTIVE.has(role) || KEPT.has(role) || NAMED.has(role) || verbose) ? nameOf(element, role) : '';
      const isEcho = name !== '' && (role === 'clickable' || !INTERACTIVE.has(role)) && named.includes(name);
      const isShown = role !== '' && element.checkVisibility({ visibilityProperty: true }) && (verbose || (!isEcho && (role === 'clickable' ? name !== '' || element === active : INTERACTIVE.has(role) || KEPT.has(role) || (NAMED.has(role) && name !== ''))));
      if (!isShown) {
        visitChildren(element, depth, named, isPointed);
        if (isBlock) flush(depth, named);
        return;
      }
      const level = role === 'treeitem' ? Math.max(0, (Number(attribute(element, 'aria-level')) || 1) - 1) : 0; // a tree's items stand side by side
      push(depth + level, element, role, name, statesOf(element, role, active, pointedAt), valueOf(element, role));
      if (role === 'frame' || role === 'textbox' || role === 'searchbox' || tag === 'svg' || tag === 'textarea') return;
      const isPart = isPointed || INTERACTIVE.has(role);
      const said = name && WHOLE.has(role) && !verbose ? EVERYTHING : name || named;
      visitChildren(element, depth + level + 1, said, isPart);
      flush(depth + level + 1, said);
    }

    /** What has no role and yet is there to be used: it takes the focus, or the mouse has a hand over it. */
    function isOffered(element: Element): boolean {
      if (element.hasAttribute('tabindex') && isFocusable(element)) return true;
      return element !== document.body && element !== document.documentElement && getComputedStyle(element).cursor === 'pointer' && !element.querySelector(PARTS);
    }

    /** A code editor: where it takes text, what it shows, and the widgets over it. */
    function editor(element: Element, depth: number, named: Said): void {
      flush(depth, named);
      const input = element.querySelector('.native-edit-context, textarea.inputarea');
      const lines = [...element.querySelectorAll('.view-line')].filter((line) => line.closest('.monaco-editor') === element).map((line) => ({ top: Number.parseFloat((line as HTMLElement).style.top), text: (line.textContent ?? '').replaceAll('\u00a0', ' ').trimEnd() })).sort((a, b) => a.top - b.top);
      const numbers = new Map<number, string>();
      for (const row of element.querySelectorAll('.margin-view-overlays > div')) {
        const number = row.querySelector('.line-numbers')?.textContent;
        if (number && row.closest('.monaco-editor') === element) numbers.set(Number.parseFloat((row as HTMLElement).style.top), number);
      }
      const isField = lines.length === 1 && numbers.size === 0; // a box of one line
      const states = input ? [input === active && document.hasFocus() ? 'focused' : '', isDisabled(input) ? 'disabled' : '', (input as HTMLTextAreaElement).readOnly === true || attribute(input, 'aria-readonly') === 'true' ? 'readonly' : ''].filter(Boolean).join(' ') : '';
      push(depth, input ?? element, 'textbox', input ? tidy(attribute(input, 'aria-label')) : '', states, isField ? (lines[0]?.text ?? '') : '');
      if (!isField) for (const { top, text } of lines) push(depth + 1, null, 'line', `${numbers.get(top) ?? ''}`, '', text);
      for (const part of [element, ...element.children].flatMap((one) => (one === element || one.classList.contains('overflow-guard') ? [...one.children] : []))) widgets(part, depth + 1);
    }

    function widgets(part: Element, depth: number): void {
      if (part.classList.contains('overflow-guard') || [...part.classList].some((name) => DRAWN.has(name))) return;
      if (part.classList.contains('monaco-scrollable-element') || part.classList.contains('lines-content')) return [...part.children].forEach((child) => widgets(child, depth));
      visit(part, depth, '', false);
      flush(depth, '');
    }

    function terminal(element: Element, depth: number, named: Said): void {
      flush(depth, named);
      const input = element.querySelector('.xterm-helper-textarea');
      push(depth, input ?? element, 'textbox', tidy((input ? attribute(input, 'aria-label') : '').split('\n')[0] ?? '') || 'Terminal', input === active && document.hasFocus() ? 'focused' : '');
      const lines = [...element.querySelectorAll('.xterm-rows > div')].map((row) => (row.textContent ?? '').replaceAll('\u00a0', ' ').trimEnd());
      while (lines.at(-1) === '') lines.pop();
      for (const line of lines) push(depth + 1, null, 'line', '', '', line);
    }

    visitChildren(document.documentElement, 0, '', false);
    flush(0, '');
    if (andWatch) watch();
    return { title: document.title, focused: document.hasFocus(), more, rows };
  }

  // ---- whether it is at rest

  let changedAt = 0;
  const observers: MutationObserver[] = [];
  const isNoise = (node: Node): boolean => (node.nodeType === 1 ? (node as Element) : node.parentElement)?.closest('.cursors-layer, .xterm-cursor-layer, .minimap, .monaco-progress-container') != null; // a cursor blinks

  /** From now on what changes is noticed, also in shadow trees. */
  function watch(): void {
    changedAt = performance.now();
    const onMutations = (mutations: MutationRecord[]): void => {
      if (mutations.some((one) => !isNoise(one.target))) changedAt = performance.now();
    };
    for (const root of [document, ...[...document.querySelectorAll('*')].flatMap((one) => one.shadowRoot ?? [])]) {
      const observer = new MutationObserver(onMutations);
      observer.observe(root, { subtree: true, childList: true, characterData: true, attributes: true });
      observers.push(observer);
    }
  }

  function stopWatching(): void {
    for (const observer of observers.splice(0)) observer.disconnect();
  }

  /** Waits until nothing has changed for a while; false if that does not come. */
  async function quiet(quietMs: number, withinMs: number): Promise<boolean> {
    const giveUpAt = performance.now() + withinMs;
    if (!observers.length) watch();
    for (;;) {
      const now = performance.now();
      const isQuiet = now - changedAt >= quietMs;
      if (isQuiet || now >= giveUpAt) return isQuiet;
      await new Promise((resolve) => setTimeout(resolve, Math.min(changedAt + quietMs, giveUpAt) - now));
    }
  }

  /** Waits for the next picture; false if none came: a page that is not shown, or is busy, draws none. */
  const nextFrame = (): Promise<boolean> => new Promise((resolve) => {
    const late = setTimeout(() => resolve(false), 60);
    requestAnimationFrame(() => (clearTimeout(late), resolve(true)));
  });

  /** Whether an animation that may move an element has not begun yet, or goes on unseen: then its place says nothing. */
  const isAboutToMove = (element: Element, isDrawn: boolean): boolean => document.getAnimations().some((one) => (one.pending || (!isDrawn && one.playState === 'running')) && one.effect instanceof KeyframeEffect && isWithin(element, one.effect.target));

  // ---- where it is

  /** What of a node the mouse can reach: what is shown of a code editor's text (all of it is as long as the file, and must not be scrolled to), a terminal's screen, the label of a box that is not drawn. */
  function reachable(element: Element): Element {
    const drawn = element.matches('.native-edit-context, textarea.inputarea') ? element.closest('.monaco-editor')?.querySelector('.editor-scrollable') : element.matches('.xterm-helper-textarea') ? element.closest('.xterm')?.querySelector('.xterm-screen') : undefined;
    if (drawn) return drawn;
    const { width, height } = element.getBoundingClientRect();
    const label = (element as HTMLInputElement).labels?.[0];
    return (width < 2 || height < 2) && label ? label : element;
  }

  function elementAt(x: number, y: number): Element | null {
    let hit = document.elementFromPoint(x, y);
    while (hit?.shadowRoot) {
      const inner = hit.shadowRoot.elementFromPoint(x, y);
      if (!inner || inner === hit) break;
      hit = inner;
    }
    return hit;
  }

  function isWithin(node: Node | null, element: Element | null): boolean {
    for (let one = node; one; one = parentOf(one)) if (one === element) return true;
    return false;
  }

  /** Whether what is hit at a point takes the click for an element. */
  function takes(hit: Element | null, element: Element): boolean {
    if (isWithin(hit, element)) return true;
    if (hit && element.closest('label') && isWithin(hit, element.closest('label') as Element)) return true; // it has one
    const editorOf = element.closest('.monaco-editor');
    if (editorOf && hit && element.classList.contains('editor-scrollable')) return isWithin(hit, editorOf) && !hit.closest('.overlayWidgets, .contentWidgets, .overflowingContentWidgets, .sticky-widget');
    return hit !== null && isWithin(element, hit) && getComputedStyle(element).pointerEvents === 'none';
  }

  function describe(element: Element | null): string {
    for (let one: Node | null = element; one; one = parentOf(one)) {
      if (one.nodeType !== 1) continue;
      const candidate = one as Element; // nodeType says so
      const role = roleOf(candidate);
      const name = role ? nameOf(candidate, role) : '';
      if (role && (name || KEPT.has(role))) return `${self.prefix}${idOf(candidate)} ${role}${name ? ` ${JSON.stringify(cut(name, 100))}` : ''}`;
    }
    return element ? `<${element.localName} class=${JSON.stringify(attribute(element, 'class').slice(0, 100))}>` : 'nothing';
  }

  const POINTS = [[0.5, 0.5], [0.25, 0.5], [0.75, 0.5], [0.5, 0.25], [0.5, 0.75], [0.1, 0.5], [0.9, 0.5], [0.1, 0.1], [0.9, 0.9]];

  function pointOn(element: Element, { left, top, right, bottom }: DOMRect): { x: number; y: number } | Element | null {
    const [x1, y1, x2, y2] = [Math.max(0, left), Math.max(0, top), Math.min(innerWidth, right), Math.min(innerHeight, bottom)];
    let other: Element | null = null;
    for (const [across = 0, down = 0] of POINTS) {
      const [x, y] = [x1 + (x2 - x1) * across, y1 + (y2 - y1) * down];
      const hit = elementAt(x, y);
      if (takes(hit, element)) return { x, y };
      other ??= hit;
    }
    return other;
  }

  const isSame = (a: DOMRect, b: DOMRect): boolean => a.left === b.left && a.top === b.top && a.width === b.width && a.height === b.height;

  /** Waits until a node can be clicked: in view, at rest, enabled and not covered. Says where, or what is in the way. */
  async function prepare(id: number, needsEnabled: boolean, withinMs: number): Promise<Prepared> {
    const giveUpAt = performance.now() + withinMs;
    for (let turn = 0; ; turn++) {
      const element = elementOf(id);
      if (!element?.isConnected) return { problem: 'gone' };
      const found = await place(element, needsEnabled, turn);
      const what = describe(element);
      if (!('problem' in found) || performance.now() > giveUpAt) return { ...found, what };
    }
  }

  async function place(element: Element, needsEnabled: boolean, turn: number): Promise<Prepared> {
    const target = reachable(element);
    const rect = target.getBoundingClientRect();
    const isDrawn = await nextFrame();
    if (!target.checkVisibility({ visibilityProperty: true }) || rect.width * rect.height === 0) return { problem: 'hidden' };
    if (needsEnabled && isDisabled(element)) return { problem: 'disabled' };
    if (!isSame(rect, target.getBoundingClientRect()) || isAboutToMove(target, isDrawn)) return { problem: 'moving' };
    const isInView = rect.right > 0 && rect.bottom > 0 && rect.left < innerWidth && rect.top < innerHeight;
    const point = isInView ? pointOn(target, rect) : null;
    if (point && 'x' in point) return { x: point.x, y: point.y, box: { x: rect.left, y: rect.top, width: rect.width, height: rect.height }, what: '' };
    if (turn % 10 === 0) target.scrollIntoView({ block: 'nearest', inline: 'nearest', behavior: 'instant' }); // it may be cut off by what scrolls
    return isInView ? { problem: 'covered', by: describe(point) } : { problem: 'out of view' };
  }

  /** Where the page in a frame begins; what covers the frame at a point of that page, if anything does. */
  function origin(id: number, x: number, y: number): ReturnType<PageTools['origin']> {
    const element = elementOf(id) as HTMLElement | undefined; // a frame
    if (!element?.isConnected) return undefined;
    const { left, top } = element.getBoundingClientRect();
    const { paddingLeft, paddingTop } = getComputedStyle(element);
    const at = { x: left + element.clientLeft + Number.parseFloat(paddingLeft), y: top + element.clientTop + Number.parseFloat(paddingTop) };
    const isOutside = at.x + x < 0 || at.y + y < 0 || at.x + x >= innerWidth || at.y + y >= innerHeight;
    const hit = elementAt(at.x + x, at.y + y);
    return { ...at, isOutside, ...(!isWithin(hit, element) && { covered: describe(hit) }) };
  }

  /** Brings a node into view. Where a frame of another process is then, the browser knows some pictures later: until then a click misses it. */
  async function scrollTo(id: number): Promise<boolean> {
    const element = elementOf(id);
    element?.scrollIntoView({ block: 'center', inline: 'nearest', behavior: 'instant' });
    for (let i = 0; i < 3; i++) await nextFrame();
    return element?.isConnected === true;
  }

  // ---- what takes text

  /** What of a node, or (0) of what has the focus, takes text or a choice. */
  function taker(id: number): Taker | undefined {
    const element = id ? elementOf(id) : deepActive();
    if (!element?.isConnected) return undefined;
    const tag = element.localName;
    const role = roleOf(element);
    const input = element as HTMLInputElement; // the members that are read below are checked
    const common = { id: idOf(element), value: valueOf(element, role), oneLine: tag === 'input', what: describe(element) };
    if (tag === 'select') return { ...common, kind: 'select', options: [...(element as HTMLSelectElement).options].map((one) => tidy(one.label)) };
    if (role === 'checkbox' || role === 'switch' || role === 'radio') return { ...common, kind: 'check', value: tag === 'input' ? String(input.checked) : attribute(element, 'aria-checked') };
    const isText = tag === 'textarea' || isEditable(element) || element.classList.contains('native-edit-context') || (tag === 'input' && !INPUTS[input.type]) || ['search', 'number'].includes(tag === 'input' ? input.type : '');
    return { ...common, kind: !isText ? 'none' : element.closest('.monaco-editor') ? 'code' : 'text' };
  }

  /** An editor indents and closes brackets while one types: what is to stand there exactly as it is has to be pasted. */
  function paste(id: number, text: string): boolean {
    const clipboardData = new DataTransfer();
    clipboardData.setData('text/plain', text);
    const event = new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true });
    elementOf(id)?.dispatchEvent(event);
    return event.defaultPrevented; // somebody has taken it
  }

  function focus(id: number): boolean {
    const element = elementOf(id) as HTMLElement | undefined; // what is no such element has no focus()
    element?.focus?.({ preventScroll: false });
    return element !== undefined && deepActive() === element;
  }

  function choose(id: number, text: string): boolean {
    const select = elementOf(id) as HTMLSelectElement; // taker() said so
    const wanted = text.trim().toLowerCase();
    const option = [...select.options].find((one) => tidy(one.label) === text.trim()) ?? [...select.options].find((one) => tidy(one.label).toLowerCase() === wanted || one.value.toLowerCase() === wanted);
    if (!option || option.disabled) return false;
    select.focus();
    select.value = option.value;
    for (const type of ['input', 'change']) select.dispatchEvent(new Event(type, { bubbles: true }));
    return true;
  }

  // ---- dragging

  let drag = false;
  const onDragStart = (event: Event): void => void queueMicrotask(() => (drag = !event.defaultPrevented));
  function expectDrag(): void {
    drag = false;
    removeEventListener('dragstart', onDragStart, true);
    addEventListener('dragstart', onDragStart, { capture: true, once: true });
  }

  const self: PageTools = {
    version, prefix: before?.prefix ?? prefix, count: before?.count ?? 0, ids, elements, tenants, forget, walk, quiet, prepare, origin, idOf, taker, focus, choose, paste, scrollTo, expectDrag, dragged: () => drag,
  };
  world.vscodeDevtools = self;
}

const PAGE_SOURCE = `(${pageTools.toString()})`;
const PAGE_VERSION = crypto.createHash('sha256').update(PAGE_SOURCE).digest('hex').slice(0, 12);
const PAGE_WORLD = 'vscode-devtools';
const MISSING = 'vscode-devtools is not here';

// ------------------------------------------------------------------------------------------------------ the socket

/** One WebSocket to the browser, with a session for each target. */
class Socket {
  closedBecause: string | undefined;
  onEvent: (method: string, params: Json, sessionId: string) => void = () => {};
  onClose: (reason: string) => void = () => {};
  private readonly socket: WebSocket;
  private readonly pending = new Map<number, { sessionId: string; method: string; resolve: (result: Json) => void; reject: (error: Error) => void }>();
  private lastId = 0;

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (data) => this.onMessage(String(data)));
    socket.on('close', () => this.close('the window has closed its debugging port'));
    socket.on('error', (error) => this.close(`the window's debugging port: ${error.message}`));
  }

  static async connect(port: number): Promise<Socket> {
    const version = await askPort(port, '/json/version').catch((error) => {
      throw failure('E_WINDOW', `the window does not answer on its debugging port ${port}: ${messageOf(error)}. Call devtools_status; the next call finds it again, or opens another`);
    });
    const socket = new WebSocket(`ws://127.0.0.1:${port}${new URL(String(isObject(version) ? version.webSocketDebuggerUrl : '')).pathname}`, { perMessageDeflate: false, maxPayload: MESSAGE_CAP, handshakeTimeout: CONNECT_MS });
    await new Promise<void>((resolve, reject) => socket.once('open', resolve).once('error', (error) => reject(failure('E_WINDOW', `the window's debugging port ${port}: ${error.message}`))));
    return new Socket(socket);
  }

  private onMessage(text: string): void {
    const message: unknown = JSON.parse(text);
    if (!isObject(message)) return;
    const { id, method, params, result, error } = message;
    if (typeof method === 'string') return this.onEvent(method, isObject(params) ? params : {}, String(message.sessionId ?? ''));
    const call = this.pending.get(Number(id));
    this.pending.delete(Number(id));
    if (isObject(error)) call?.reject(commandError(call.method, String(error.message)));
    else call?.resolve(isObject(result) ? result : {});
  }

  send(method: string, params: Json = {}, sessionId = '', withinMs = COMMAND_MS): Promise<Json> {
    if (this.closedBecause !== undefined) return Promise.reject(failure('E_CLOSED', this.closedBecause));
    const id = ++this.lastId;
    return new Promise((resolve, reject) => {
      const inTime = deadline(withinMs, () => this.pending.delete(id) && reject(failure('E_TIMEOUT', `the window did not answer ${method} in ${withinMs} ms: it is busy, or a program in it stands at a breakpoint. window_screenshot shows it`)));
      this.pending.set(id, { sessionId, method, resolve: (result) => (inTime(), resolve(result)), reject: (error) => (inTime(), reject(error)) });
      this.socket.send(JSON.stringify({ id, method, params, ...(sessionId && { sessionId }) }));
    });
  }

  /** Whoever waits for one of these sessions waits no longer. */
  reject(isMeant: (sessionId: string) => boolean, error: Error): void {
    for (const [id, call] of this.pending) {
      if (!isMeant(call.sessionId)) continue;
      this.pending.delete(id);
      call.reject(error);
    }
  }

  close(reason: string): void {
    if (this.closedBecause !== undefined) return;
    this.closedBecause = reason;
    this.socket.terminate();
    this.reject(() => true, failure('E_CLOSED', `${reason}. Call again: the window is found again, if it is there`));
    this.onClose(reason);
  }
}

/** What went wrong with a command; that the page has gone meanwhile is a case of its own. */
function commandError(method: string, text: string): Error {
  if (/context|navigated|closed|not found|No frame|No target|detached/i.test(text)) return failure('E_RELOADED', `the window, or a frame of it, was reloaded or closed in the middle (${text}): look at it again with window_snapshot, uids of before are gone`);
  return failure('E_CDP', `${method}: ${text}`);
}

function askPort(port: number, file: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const request = http.get({ host: '127.0.0.1', port, path: file, timeout: CONNECT_MS, agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk)).on('error', reject).on('end', () => {
        try {
          resolve(JSON.parse(text));
        } catch (error) {
          reject(error);
        }
      });
    });
    request.on('timeout', () => request.destroy(new Error('no answer')));
    request.on('error', reject);
  });
}

// ----------------------------------------------------------------------------------------------- targets and frames
// The workbench is a page. A webview is a frame in it, with a frame inside: of the same process and session where its
// origin is the same, else with a session of its own. Each session attaches to its children.

type Session = { id: string; targetId: string; type: string; url: string; title: string; parent: Session | undefined };
type Frame = { id: string; session: Session; parentId: string | undefined; url: string; main: number | undefined; world: number | undefined; prefix: string; owner: { frame: Frame; id: number } | undefined };
type Dialog = { session: Session; type: string; message: string; text: string };
type Message = { cursor: number; at: string; level: string; text: string; where: string; source: string };
type Request = { cursor: number; id: string; at: string; method: string; url: string; type: string; where: string; status: number | null; size: number | null; ms: number | null; failed: string; session: Session; requestId: string; requestHeaders: Json; responseHeaders: Json; started: number };

const PAGE_TYPES = ['page', 'iframe'];
const WATCHED_TYPES = [...PAGE_TYPES, 'worker', 'shared_worker', 'service_worker', 'webview'];

export class Window {
  readonly port: number;
  readonly sessions = new Map<string, Session>();
  readonly frames = new Map<string, Frame>();
  readonly parents = new Map<string, string>(); // of frames, also of those that moved to another process
  readonly messages: Message[] = [];
  readonly requests: Request[] = [];
  readonly open = new Set<string>(); // requests that are under way
  lastCursor = 0;
  trafficAt = 0;
  dialog: Dialog | undefined;
  crashed: Session | undefined; // the page, whose process has ended
  silent: Session | undefined; // the page, which did not answer when it was attached to
  onDragData: ((data: unknown) => void) | undefined;
  private readonly socket: Socket;
  private readonly ready = new Map<string, Promise<void>>(); // sessions, as their domains are enabled
  private prefixing: Promise<unknown> = Promise.resolve();

  private constructor(socket: Socket, port: number) {
    this.socket = socket;
    this.port = port;
    socket.onEvent = (method, params, sessionId) => {
      const handle = EVENTS[method];
      const session = this.sessions.get(sessionId);
      if (handle && (session || method.startsWith('Target.'))) handle(this, params, session);
    };
  }

  /** Connects to the window behind a port, and to all that is in it. A page that has crashed, or that a dialog holds which a server
   * before this one has seen open (no other can answer it), is loaded again: it stays dead else. */
  static async connect(port: number): Promise<Window> {
    const window = await Window.attachTo(port);
    const dead = window.crashed ?? (window.silent && (await window.isIdle()) ? window.silent : undefined);
    if (!dead) return window;
    await window.socket.send('Page.reload', {}, dead.id).finally(() => window.close('its page is loaded again'));
    return Window.attachTo(port);
  }

  /** Whether no page does anything: one that does not answer is then not busy, but held. */
  private async isIdle(): Promise<boolean> {
    const used = async (): Promise<number> => {
      const { processInfo } = await this.socket.send('SystemInfo.getProcessInfo');
      return (Array.isArray(processInfo) ? processInfo.filter(isObject) : []).filter(({ type }) => type === 'renderer').reduce((sum, { cpuTime }) => sum + Number(cpuTime), 0);
    };
    try {
      const before = await used();
      await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
      return (await used()) - before < IDLE_SHARE * (IDLE_MS / 1000);
    } catch {
      return false; // a desktop's browser may not tell: then nothing is done to it
    }
  }

  private static async attachTo(port: number): Promise<Window> {
    const socket = await Socket.connect(port);
    const window = new Window(socket, port);
    try {
      await socket.send('Target.setDiscoverTargets', { discover: true });
      await socket.send('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: false, flatten: true }); // its answer comes behind the events
      await window.settledSessions();
      if (!window.crashed) window.workbench();
      return window;
    } catch (error) {
      socket.close(messageOf(error));
      throw error;
    }
  }

  get closedBecause(): string | undefined {
    return this.socket.closedBecause;
  }

  /** A dialog that stays open holds the page, and only who has seen it open can answer it: so it is dismissed. */
  close(reason: string): void {
    if (this.dialog) this.socket.send('Page.handleJavaScriptDialog', { accept: false }, this.dialog.session.id).catch(() => {}); // nobody waits for it
    this.socket.close(reason);
  }

  /** Until all sessions that there are can be used; what one brings with it too. */
  async settledSessions(): Promise<void> {
    for (let size = -1; size !== this.ready.size; ) {
      size = this.ready.size;
      await Promise.all(this.ready.values());
    }
  }

  send(session: Session, method: string, params: Json = {}, withinMs?: number): Promise<Json> {
    if (this.crashed) return Promise.reject(this.crashError());
    return this.socket.send(method, params, session.id, withinMs);
  }

  attach(params: Json, parent: Session | undefined): void {
    const { sessionId, targetInfo } = params;
    if (typeof sessionId !== 'string' || !isObject(targetInfo)) return;
    const session: Session = { id: sessionId, targetId: String(targetInfo.targetId), type: String(targetInfo.type), url: String(targetInfo.url), title: String(targetInfo.title), parent };
    if (!WATCHED_TYPES.includes(session.type)) return;
    this.sessions.set(sessionId, session);
    this.ready.set(sessionId, this.enable(session).catch((error) => {
      if (session.type === 'page' && errorName(error) === 'E_TIMEOUT') this.silent = session;
    }).finally(() => this.ready.delete(sessionId))); // it may be gone already
  }

  private async enable(session: Session): Promise<void> {
    const send = (method: string, params: Json = {}): Promise<Json> => this.send(session, method, params);
    const isPage = PAGE_TYPES.includes(session.type);
    const asked = [
      send('Runtime.enable'), send('Log.enable').catch(() => ({})), send('Network.enable', { maxTotalBufferSize: 32 * 1024 * 1024, maxResourceBufferSize: 8 * 1024 * 1024 }).catch(() => ({})),
      send('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: false, flatten: true }).catch(() => ({})), // a worker may have none of these
    ];
    if (isPage) asked.unshift(send('Inspector.enable')); // tells at once if the page has crashed: whatever else is asked of it is never answered
    if (isPage) asked.push(send('Page.enable'), send('DOM.enable'), send('Emulation.setFocusEmulationEnabled', { enabled: true }).catch(() => ({})));
    const tree = isPage ? send('Page.getFrameTree') : undefined;
    const [told] = await Promise.all([tree, ...asked]); // together: a page that goes meanwhile fails them all
    const { frameTree } = told ?? {};
    const learn = (node: unknown): void => {
      if (!isObject(node) || !isObject(node.frame)) return;
      const { id, parentId, url } = node.frame;
      this.frame(String(id), session).url = String(url);
      if (typeof parentId === 'string') this.parents.set(String(id), parentId);
      for (const child of Array.isArray(node.childFrames) ? node.childFrames : []) learn(child);
    };
    learn(frameTree);
  }

  detach(session: Session): void {
    this.sessions.delete(session.id);
    for (const frame of this.frames.values()) if (frame.session === session) this.frames.delete(frame.id);
    for (const id of this.open) if (id.startsWith(`${session.id} `)) this.open.delete(id);
    this.socket.reject((id) => id === session.id, commandError('', 'target closed'));
    if (this.dialog?.session === session) this.dialog = undefined;
  }

  frame(id: string, session: Session): Frame {
    let frame = this.frames.get(id);
    if (!frame || frame.session !== session) {
      frame = { id, session, parentId: this.parents.get(id), url: '', main: undefined, world: undefined, prefix: '', owner: undefined };
      this.frames.set(id, frame);
    }
    return frame;
  }

  /** The process of a page or frame has ended. */
  crash(session: Session): void {
    if (session.type === 'page') {
      this.crashed = session;
      this.socket.reject((id) => id === session.id, this.crashError());
    }
    this.detach(session);
  }

  private crashError(): Error {
    return failure('E_WINDOW', 'the window has crashed. Call again: it is loaded anew then; uids of before are gone, and what was not saved may be');
  }

  /** The page of VS Code itself; an error if there is none. */
  workbench(): Session {
    if (this.crashed) throw this.crashError();
    const pages = this.pages();
    const found = pages.find(({ url }) => /[?&](?:folder|workspace|ew)=|workbench(?:-dev)?\.html/.test(url)) ?? pages[0];
    if (!found) throw failure('E_WINDOW', 'the window shows no page: it has just been closed, or is only opening. Call devtools_status');
    return found;
  }

  pages(): Session[] {
    return [...this.sessions.values()].filter(({ type }) => type === 'page');
  }

  mainFrame(session: Session): Frame {
    return this.frame(session.targetId, session); // a page's first frame has its target's id
  }

  pageOf(session: Session): Session {
    let one = session;
    while (one.parent && one.type !== 'page') one = one.parent;
    return one;
  }

  /** A dialog stops all that runs in its page: who waits is told. */
  openDialog(session: Session, params: Json): void {
    this.dialog = { session, type: String(params.type), message: String(params.message).slice(0, 1000), text: String(params.defaultPrompt ?? '') };
    const page = this.pageOf(session);
    this.socket.reject((id) => {
      const other = this.sessions.get(id);
      return other !== undefined && this.pageOf(other) === page;
    }, this.dialogError());
  }

  dialogError(): Error {
    const { type = '', message = '' } = this.dialog ?? {};
    return failure('E_DIALOG', `a dialog (${type}) is open and holds the window: ${JSON.stringify(message)}. window_press_key {"keys":"Enter"} accepts it, {"keys":"Escape"} dismisses it${type === 'prompt' ? ', window_type puts text into it and accepts' : ''}`, { dialog: { type, message } });
  }

  /** Calls one of the tools inside a frame; puts them there first if need be. */
  async inFrame<K extends keyof PageTools>(frame: Frame, name: K, args: unknown[], withinMs = COMMAND_MS): Promise<PageTools[K] extends (...args: never[]) => infer R ? Awaited<R> : never> {
    const expression = `globalThis.vscodeDevtools?.version===${JSON.stringify(PAGE_VERSION)}?vscodeDevtools.${name}(${args.map((one) => JSON.stringify(one)).join(',')}):${JSON.stringify(MISSING)}`;
    let said = await this.evaluate(frame, expression, withinMs);
    if (said === MISSING) {
      await this.install(frame);
      said = await this.evaluate(frame, expression, withinMs);
    }
    return said as never; // what that function returns, as JSON carries it
  }

  /** Evaluates in our world of a frame. */
  async evaluate(frame: Frame, expression: string, withinMs = COMMAND_MS): Promise<unknown> {
    if (this.dialog) throw this.dialogError();
    frame.world ??= Number((await this.send(frame.session, 'Page.createIsolatedWorld', { frameId: frame.id, worldName: PAGE_WORLD })).executionContextId);
    const { result, exceptionDetails } = await this.send(frame.session, 'Runtime.evaluate', { expression, contextId: frame.world, awaitPromise: true, returnByValue: true }, withinMs).catch((error) => {
      frame.world = undefined;
      throw error;
    });
    if (exceptionDetails) throw failure('E_CDP', `in the page: ${exceptionText(exceptionDetails)}`);
    return isObject(result) ? result.value : undefined;
  }

  private async install(frame: Frame): Promise<void> {
    // One after the other, so that each document gets a letter of its own. The page counts them, also over its reloads.
    const counted = this.prefixing.catch(() => {}).then(() => this.evaluate(this.mainFrame(this.workbench()), `(${COUNT_DOCUMENTS})(${nextDocument})`));
    this.prefixing = counted;
    const count = Number(await counted);
    nextDocument = Math.max(nextDocument, count + 1);
    const prefix = letters(count >= 0 ? count : 26 * 27 + crypto.randomInt(26 ** 3 - 26));
    await this.evaluate(frame, `${PAGE_SOURCE}(${JSON.stringify(PAGE_VERSION)},${JSON.stringify(prefix)})`);
  }

  async prefixOf(frame: Frame): Promise<string> {
    if (!frame.prefix || frame.world === undefined) {
      const prefix = await this.evaluate(frame, 'globalThis.vscodeDevtools?.prefix');
      frame.prefix = typeof prefix === 'string' ? prefix : '';
      nextDocument = Math.max(nextDocument, numberOf(frame.prefix) + 1);
    }
    return frame.prefix;
  }

  /** The frame element that a frame is shown in. */
  async ownerOf(frame: Frame): Promise<{ frame: Frame; id: number } | undefined> {
    const known = frame.owner;
    if (known && this.frames.get(known.frame.id) === known.frame) return known;
    const isRoot = frame.id === frame.session.targetId;
    const session = isRoot ? frame.session.parent : frame.session;
    if (!session || frame.session.type === 'page' && isRoot) return undefined;
    const parentId = this.parents.get(frame.id);
    const candidates = [...this.frames.values()].filter((one) => one.session === session && one !== frame && (parentId === undefined || one.id === parentId));
    const { backendNodeId } = await this.send(session, 'DOM.getFrameOwner', { frameId: frame.id });
    for (const parent of candidates) {
      await this.inFrame(parent, 'dragged', []); // so that its world and tools are there
      try {
        const { object } = await this.send(session, 'DOM.resolveNode', { backendNodeId, executionContextId: parent.world });
        const { result } = await this.send(session, 'Runtime.callFunctionOn', { objectId: isObject(object) ? object.objectId : '', functionDeclaration: 'function () { return vscodeDevtools.idOf(this); }', returnByValue: true });
        if (isObject(result) && typeof result.value === 'number') return (frame.owner = { frame: parent, id: result.value });
      } catch {
        // it is in another document
      }
    }
    return undefined;
  }
}

// A window that is opened in place of another counts on behind that, so that old uids mean nothing in it. A server that starts
// knows of none before: it begins anywhere.
let nextDocument = crypto.randomInt(26);
const COUNT_DOCUMENTS = `(first) => { try { const n = Number(sessionStorage.getItem('vscode-devtools.documents') ?? first); sessionStorage.setItem('vscode-devtools.documents', n + 1); return n; } catch { return -1; } }`;

/** a, b, ... z, aa, ab, ... */
const letters = (n: number): string => (n < 26 ? '' : letters(Math.floor(n / 26) - 1)) + String.fromCharCode(97 + (n % 26));

const numberOf = (prefix: string): number => [...prefix].reduce((sum, letter) => 26 * sum + letter.charCodeAt(0) - 96, 0) - 1;

function exceptionText(details: unknown): string {
  if (!isObject(details)) return 'unknown';
  const { exception, text } = details;
  return String((isObject(exception) ? (exception.description ?? exception.value) : undefined) ?? text).slice(0, ENTRY_CAP);
}

/** Handlers, named as in the protocol. A session is there for all but those of Target at the browser itself. */
const EVENTS: Record<string, (window: Window, params: Json, session: Session | undefined) => void> = {
  'Target.attachedToTarget': (window, params, session) => window.attach(params, session),
  'Target.detachedFromTarget': (window, { sessionId }) => {
    const session = window.sessions.get(String(sessionId));
    if (session) window.detach(session);
  },
  'Target.targetInfoChanged': (window, { targetInfo }) => {
    if (!isObject(targetInfo)) return;
    for (const session of window.sessions.values()) if (session.targetId === targetInfo.targetId) Object.assign(session, { url: String(targetInfo.url), title: String(targetInfo.title) });
  },
  'Inspector.targetCrashed': (window, _params, session) => session && window.crash(session),
  'Page.frameAttached': (window, { frameId, parentFrameId }) => void window.parents.set(String(frameId), String(parentFrameId)),
  'Page.frameNavigated': (window, { frame }, session) => {
    if (isObject(frame) && session) window.frame(String(frame.id), session).url = String(frame.url);
  },
  'Page.frameDetached': (window, { frameId, reason }, session) => {
    if (window.frames.get(String(frameId))?.session !== session) return;
    window.frames.delete(String(frameId));
    if (reason !== 'swap') window.parents.delete(String(frameId));
  },
  'Page.javascriptDialogOpening': (window, params, session) => session && window.openDialog(session, params),
  'Page.javascriptDialogClosed': (window) => void (window.dialog = undefined),
  'Runtime.executionContextCreated': (window, { context }, session) => {
    if (!isObject(context) || !isObject(context.auxData) || !session) return;
    const { frameId, isDefault } = context.auxData;
    if (typeof frameId !== 'string') return;
    const frame = window.frame(frameId, session);
    if (isDefault === true) Object.assign(frame, { main: Number(context.id), prefix: '', owner: undefined });
    else if (context.name === PAGE_WORLD) frame.world = Math.min(frame.world ?? Infinity, Number(context.id)); // another server may have made one: the first is everybody's
  },
  'Runtime.executionContextDestroyed': (window, { executionContextId }, session) => {
    for (const frame of window.frames.values()) {
      if (frame.session !== session) continue;
      if (frame.main === executionContextId) frame.main = undefined;
      if (frame.world === executionContextId) Object.assign(frame, { world: undefined, prefix: '' });
    }
  },
  'Runtime.executionContextsCleared': (window, _params, session) => {
    for (const frame of window.frames.values()) if (frame.session === session) Object.assign(frame, { main: undefined, world: undefined, prefix: '' });
  },
  'Input.dragIntercepted': (window, { data }) => window.onDragData?.(data),
  'Runtime.consoleAPICalled': onConsoleApiCalled,
  'Runtime.exceptionThrown': onExceptionThrown,
  'Log.entryAdded': onEntryAdded,
  'Network.requestWillBeSent': onRequestWillBeSent,
  'Network.responseReceived': onResponseReceived,
  'Network.loadingFinished': onLoadingFinished,
  'Network.loadingFailed': onLoadingFailed,
  'Network.webSocketFrameSent': (window) => void (window.trafficAt = performance.now()),
  'Network.webSocketFrameReceived': (window) => void (window.trafficAt = performance.now()),
};

// ------------------------------------------------------------------------------------------------ the tree as text
// All frames as one tree, a line a node: `uid role "name" states = "value"`. Text is a line of its own, in quotes, where
// no name above it says it already; lines of editors and terminals stand below them, behind a bar.

type View = { rows: Row[]; frames: Frame[]; silent: string[]; more: number };

/** Looks into every frame at once, and puts what they tell together. */
async function view(window: Window, verbose = false, andWatch = false): Promise<View> {
  await window.settledSessions();
  if (window.dialog) throw window.dialogError();
  const root = window.mainFrame(window.workbench());
  const roots = [root, ...window.pages().map((page) => window.mainFrame(page)).filter((one) => one !== root)];
  const others = [...window.frames.values()].filter((frame) => frame.main !== undefined && !roots.includes(frame)).slice(0, FRAMES_CAP);
  const told = new Map<Frame, Walk>();
  const owners = new Map<string, Frame>(); // by the uid of the element that shows it
  const silent: string[] = [];
  const look = async (frame: Frame): Promise<void> => {
    const walk = await window.inFrame(frame, 'walk', [verbose, andWatch], frame === root ? COMMAND_MS : LOOK_MS);
    await window.prefixOf(frame);
    const owner = roots.includes(frame) ? undefined : await window.ownerOf(frame);
    if (owner) owners.set(`${await window.prefixOf(owner.frame)}${owner.id}`, frame);
    told.set(frame, walk);
  };
  if (!root.prefix) await look(root); // it is the first, and gets the first letter
  await Promise.all([root, ...roots.slice(1), ...others].filter((frame) => !told.has(frame)).map((frame) => look(frame).catch((error) => {
    if (frame === root || errorName(error) === 'E_DIALOG') throw error;
    if (window.frames.get(frame.id) === frame && frame.main !== undefined) silent.push(`${frame.url.slice(0, 100)}: ${messageOf(error)}`);
  })));
  const rows: Row[] = [];
  const frames: Frame[] = [];
  let more = 0;
  const add = (frame: Frame, depth: number): void => {
    const walk = told.get(frame);
    if (!walk || frames.includes(frame)) return;
    frames.push(frame);
    more += walk.more;
    for (const [below, id, role, name, states, value] of walk.rows) {
      const uid = id ? `${frame.prefix}${id}` : '';
      const inner = role === 'frame' ? owners.get(uid) : undefined;
      const [only, ...rest] = inner ? (told.get(inner)?.rows ?? []) : [];
      if (inner && only?.[2] === 'frame' && !rest.length) { // a webview's outer frame holds the inner one, and nothing else
        add(inner, depth + below);
        continue;
      }
      rows.push({ depth: depth + below, uid, role, name: inner && (name === '' || name === 'undefined') ? (told.get(inner)?.title ?? '') : name, states, value }); // VS Code writes the latter
      if (inner) add(inner, depth + below + 1);
    }
  };
  for (const frame of roots) add(frame, 0);
  return { rows: rows.filter((row, index) => !isEcho(row, rows[index - 1])), frames, silent, more };
}

/** A button that holds nothing but itself once more. */
const isEcho = (row: Row, above: Row | undefined): boolean => above !== undefined && row.depth === above.depth + 1 && row.role === above.role && row.name === above.name && row.name !== '' && row.role !== 'listitem';

const KEY_HINT = / ?\((?:(?:Ctrl|Shift|Alt|Cmd|Meta|Win)\+|[⌘⇧⌥⌃]|F\d+\b)[^()]*(?:\([^()]*\))?[^()]*\)(?: \[Alt\].*)?$/;

/** A name without the key that does the same. */
export const plainName = (name: string): string => name.replace(KEY_HINT, '') || name;

const shorten = (text: string, cap: number): string => (text.length > cap ? `${text.slice(0, cap)}…` : text);

export function lineOf({ uid, role, name, states, value }: Row, verbose = false): string {
  if (role === 'line') return `${name}| ${value}`;
  const shown = verbose ? name : shorten(plainName(name), NAME_CAP);
  if (role === 'text') return `${verbose ? `${uid} text ` : ''}${JSON.stringify(verbose ? name : name)}`;
  return `${uid} ${role}${shown ? ` ${JSON.stringify(shown)}` : ''}${states ? ` ${states}` : ''}${value ? ` = ${JSON.stringify(verbose ? value : shorten(value, NAME_CAP))}` : ''}`;
}

/** The rows as text, bounded: of long lists the beginnings are shown, all cut to the same length, and what is left out is counted. */
export function treeText(rows: readonly Row[], options: { depth?: number; verbose?: boolean; lines?: number; characters?: number } = {}): { text: string; left: number } {
  const { depth = Infinity, verbose = false, lines = LINES_CAP, characters = TEXT_CAP } = options;
  for (const width of [Infinity, 200, 100, 50, 30, 20, 12, 8, 5, 3, 1]) {
    const { text, left } = cutTree(rows, depth, width, verbose);
    if ((text.length <= lines && text.reduce((sum, line) => sum + line.length + 1, 0) <= characters) || width === 1) {
      const whole = text.join('\n');
      return whole.length <= characters ? { text: whole, left } : { text: `${whole.slice(0, characters)}\n… cut: look at a part, with \`within\``, left };
    }
  }
  return { text: '', left: rows.length };
}

function cutTree(rows: readonly Row[], depthCap: number, width: number, verbose: boolean): { text: string[]; left: number } {
  const base = rows[0]?.depth ?? 0;
  const text: string[] = [];
  const open: Array<{ row: Row | undefined; depth: number; shown: number; hidden: number }> = [{ row: undefined, depth: base - 1, shown: 0, hidden: 0 }];
  let left = 0;
  let skipBelow = Infinity;
  const close = (depth: number): void => {
    for (let last = open.at(-1); last && open.length > 1 && last.depth >= depth; last = open.at(-1)) {
      if (last.hidden) text.push(`${' '.repeat(last.depth + 1 - base)}… ${last.hidden} more below ${last.row?.uid ?? ''}`);
      open.pop();
    }
  };
  for (const row of rows) {
    if (row.depth > skipBelow) {
      const parent = open.at(-1);
      if (parent) parent.hidden++;
      left++;
      continue;
    }
    skipBelow = Infinity;
    close(row.depth);
    const parent = open.at(-1);
    if (parent && (parent.shown >= width || row.depth - base > depthCap)) {
      parent.hidden++;
      left++;
      skipBelow = row.depth;
      continue;
    }
    if (parent) parent.shown++;
    text.push(`${' '.repeat(row.depth - base)}${lineOf(row, verbose)}`);
    open.push({ row, depth: row.depth, shown: 0, hidden: 0 });
  }
  close(base);
  if (open[0]?.hidden) text.push(`… ${open[0].hidden} more: ask with \`within\`, \`find\` or \`depth\``);
  return { text, left };
}

/** A node and all below it. */
function subtree(rows: readonly Row[], at: number): Row[] {
  const top = rows[at];
  if (!top) return [];
  const end = rows.findIndex((row, index) => index > at && row.depth <= top.depth);
  return rows.slice(at, end < 0 ? undefined : end);
}

/** What a node stands in, from the outside in. */
function ancestors(rows: readonly Row[], at: number): Row[] {
  const found: Row[] = [];
  let depth = rows[at]?.depth ?? 0;
  for (let i = at - 1; i >= 0 && depth > 0; i--) {
    const row = rows[i];
    if (!row || row.depth >= depth) continue;
    depth = row.depth;
    found.unshift(row);
  }
  return found;
}

const INTERACTIVE = new Set(['button', 'link', 'textbox', 'searchbox', 'combobox', 'checkbox', 'radio', 'switch', 'slider', 'spinbutton', 'tab', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'option', 'treeitem', 'listitem', 'row', 'clickable']);

/** The rows that a text means: those named so exactly, else but for upper case, else those that contain it. */
export function matching(rows: readonly Row[], text: string, every = false): number[] {
  const wanted = text.trim();
  const lower = wanted.toLowerCase();
  const says = (row: Row): string[] => [row.name, plainName(row.name), row.value].filter(Boolean);
  const tiers: Array<(row: Row) => boolean> = [
    (row) => says(row).includes(wanted), (row) => says(row).some((one) => one.toLowerCase() === lower), (row) => says(row).some((one) => one.toLowerCase().includes(lower)),
  ];
  for (const fits of every ? tiers.slice(2) : tiers) {
    const found = rows.flatMap((row, index) => (fits(row) ? [index] : []));
    if (found.length) return found;
  }
  return [];
}

/** What is new, gone or otherwise, in a few lines. */
export function changesOf(before: readonly Row[], after: readonly Row[]): string {
  const keyed = (rows: readonly Row[]): Map<string, { row: Row; at: number }> => {
    const all = new Map<string, { row: Row; at: number }>();
    let owner = '';
    for (const [at, row] of rows.entries()) {
      if (row.uid && row.role !== 'text') owner = row.uid;
      let key = row.uid && row.role !== 'text' ? row.uid : row.role === 'line' && row.name ? `${owner} line ${row.name}` : `${owner} ${row.role} ${row.role === 'line' ? row.value : row.name}`;
      while (all.has(key)) key += "'";
      all.set(key, { row, at });
    }
    return all;
  };
  const [old, now] = [keyed(before), keyed(after)];
  const redrawn = pairRedrawn(old, now);
  const lines: string[] = [];
  let shownTo = -1;
  for (const [key, { row, at }] of now) {
    const was = old.get(key);
    if (!was && at > shownTo) {
      const fresh = subtree(after, at);
      shownTo = at + fresh.length - 1;
      const base = row.depth;
      for (const one of fresh) lines.push(`+ ${' '.repeat(one.depth - base)}${lineOf(one)}`);
    } else if (was && lineOf(was.row) !== lineOf(row)) lines.push(`~ ${lineOf(row)}${was.row.states !== row.states ? ` (was: ${was.row.states || 'none of it'})` : was.row.value !== row.value && row.role !== 'line' ? ` (was: ${JSON.stringify(shorten(was.row.value, 60))})` : ''}`);
  }
  let goneTo = -1;
  for (const [key, { row, at }] of old) {
    if (now.has(key) || at <= goneTo) continue;
    const gone = subtree(before, at);
    goneTo = at + gone.length - 1;
    if (row.role === 'line' && row.name === '') continue; // a terminal's line that has scrolled away
    lines.push(`- ${lineOf(row)}${gone.length > 1 ? ` and ${gone.length - 1} below it` : ''}`);
  }
  if (redrawn.length) lines.push(`(drawn anew, with other uids: ${redrawn.slice(0, FOUND_CAP).join(', ')}${redrawn.length > FOUND_CAP ? ` and ${redrawn.length - FOUND_CAP} more` : ''})`);
  const kept = lines.slice(0, CHANGES_CAP);
  let text = kept.join('\n');
  if (text.length > CHANGES_TEXT) text = text.slice(0, text.lastIndexOf('\n', CHANGES_TEXT));
  const left = lines.length - text.split('\n').length;
  return left > 0 && text ? `${text}\n… ${left} more changes: window_snapshot shows all` : text;
}

/** What was only drawn anew is no change: of a node that is gone and one that is new and says the same, neither is told. */
function pairRedrawn(old: Map<string, { row: Row; at: number }>, now: Map<string, { row: Row; at: number }>): string[] {
  const said = ({ uid: _uid, ...rest }: Row): string => JSON.stringify(rest);
  const fresh = new Map<string, string[]>();
  for (const [key, { row }] of now) if (row.uid && !old.has(key)) fresh.set(said(row), [...(fresh.get(said(row)) ?? []), key]);
  const redrawn: string[] = [];
  for (const [key, { row, at }] of [...old]) {
    if (!row.uid || now.has(key)) continue;
    const twin = fresh.get(said(row))?.shift();
    const drawn = twin === undefined ? undefined : now.get(twin);
    if (twin === undefined || !drawn) continue;
    old.delete(key);
    old.set(twin, { row: drawn.row, at });
    if (row.role !== 'text') redrawn.push(`${row.uid} is ${drawn.row.uid}`);
  }
  return redrawn;
}

// ------------------------------------------------------------------------------------------------------------ keys

const MODIFIERS = { Alt: 1, Control: 2, Meta: 4, Shift: 8 } as const;
type Modifier = keyof typeof MODIFIERS;
const MODIFIER_NAMES: Record<string, Modifier> = { alt: 'Alt', option: 'Alt', control: 'Control', ctrl: 'Control', meta: 'Meta', cmd: 'Meta', command: 'Meta', win: 'Meta', windows: 'Meta', super: 'Meta', shift: 'Shift' };
const MODIFIER_CODES: Record<Modifier, number> = { Alt: 18, Control: 17, Meta: 91, Shift: 16 };

// Name: code of the key, its number, and what it types.
const NAMED_KEYS: Record<string, [code: string, number: number, text?: string]> = {
  Enter: ['Enter', 13, '\r'], Tab: ['Tab', 9], Escape: ['Escape', 27], Backspace: ['Backspace', 8], Delete: ['Delete', 46], Insert: ['Insert', 45], ' ': ['Space', 32, ' '], Home: ['Home', 36], End: ['End', 35], PageUp: ['PageUp', 33], PageDown: ['PageDown', 34],
  ArrowLeft: ['ArrowLeft', 37], ArrowUp: ['ArrowUp', 38], ArrowRight: ['ArrowRight', 39], ArrowDown: ['ArrowDown', 40], ContextMenu: ['ContextMenu', 93], Pause: ['Pause', 19], CapsLock: ['CapsLock', 20], PrintScreen: ['PrintScreen', 44], ScrollLock: ['ScrollLock', 145], NumLock: ['NumLock', 144],
  ...Object.fromEntries(Array.from({ length: 24 }, (_, i) => [`F${i + 1}`, [`F${i + 1}`, 112 + i]])),
};
const KEY_ALIASES: Record<string, string> = { esc: 'Escape', return: 'Enter', space: ' ', spacebar: ' ', del: 'Delete', ins: 'Insert', up: 'ArrowUp', down: 'ArrowDown', left: 'ArrowLeft', right: 'ArrowRight', uparrow: 'ArrowUp', downarrow: 'ArrowDown', leftarrow: 'ArrowLeft', rightarrow: 'ArrowRight', pgup: 'PageUp', pgdn: 'PageDown', menu: 'ContextMenu', plus: '+', minus: '-', comma: ',', period: '.', backtick: '`' };
const PUNCTUATION: Array<[plain: string, shifted: string, code: string, number: number]> = [
  ['`', '~', 'Backquote', 192], ['-', '_', 'Minus', 189], ['=', '+', 'Equal', 187], ['[', '{', 'BracketLeft', 219], [']', '}', 'BracketRight', 221], ['\\', '|', 'Backslash', 220], [';', ':', 'Semicolon', 186], ["'", '"', 'Quote', 222], [',', '<', 'Comma', 188], ['.', '>', 'Period', 190], ['/', '?', 'Slash', 191],
  ...['!', '@', '#', '$', '%', '^', '&', '*', '(', ')'].map((shifted, i): [string, string, string, number] => [String((i + 1) % 10), shifted, `Digit${(i + 1) % 10}`, 48 + ((i + 1) % 10)]),
];

export type Chord = { modifiers: Modifier[]; key: string; code: string; number: number; text: string | undefined };

/** Chords in the words of VS Code or of the web: "Control+K Control+S", "ctrl+shift+p", "Enter", "F5". */
export function parseKeys(keys: string): Chord[] {
  const chords = keys === ' ' ? [' '] : keys.trim().split(/\s+/);
  return chords.map((chord) => {
    const words = chord.length > 1 && chord.endsWith('+') ? [...chord.slice(0, -1).split('+').filter(Boolean), '+'] : chord.split('+');
    const last = words.pop() ?? '';
    const modifiers = words.map((word) => {
      const modifier = MODIFIER_NAMES[word.toLowerCase()];
      if (!modifier) throw failure('E_ARGUMENTS', `keys: ${JSON.stringify(word)} in ${JSON.stringify(chord)} is no modifier: Control, Shift, Alt and Meta are. Nothing was pressed`);
      return modifier;
    });
    const alone = MODIFIER_NAMES[last.toLowerCase()];
    if (alone) return { modifiers: [...new Set([...modifiers, alone])], key: '', code: '', number: 0, text: undefined };
    return keyOf(last, [...new Set(modifiers)], chord);
  });
}

function keyOf(word: string, modifiers: Modifier[], chord: string): Chord {
  const canonical = KEY_ALIASES[word.toLowerCase()] ?? Object.keys(NAMED_KEYS).find((name) => name.toLowerCase() === word.toLowerCase()) ?? word;
  const types = !modifiers.some((one) => one !== 'Shift'); // with another modifier a key is a command
  const named = NAMED_KEYS[canonical];
  if (named) return { modifiers, key: canonical, code: named[0], number: named[1], text: types || canonical === 'Enter' ? named[2] : undefined };
  if (/^[a-z]$/i.test(canonical)) {
    const isUpper = modifiers.includes('Shift') || (modifiers.length === 0 && canonical !== canonical.toLowerCase());
    const key = isUpper ? canonical.toUpperCase() : canonical.toLowerCase();
    return { modifiers: isUpper && !modifiers.length ? ['Shift'] : modifiers, key, code: `Key${canonical.toUpperCase()}`, number: canonical.toUpperCase().charCodeAt(0), text: types ? key : undefined };
  }
  const sign = PUNCTUATION.find(([plain, shifted]) => canonical === plain || canonical === shifted);
  if (sign) {
    const [plain, shifted, code, number] = sign;
    const isShifted = modifiers.includes('Shift') || canonical === shifted;
    const key = isShifted ? shifted : plain;
    return { modifiers: isShifted && !modifiers.includes('Shift') ? [...modifiers, 'Shift'] : modifiers, key, code, number, text: types ? key : undefined };
  }
  throw failure('E_ARGUMENTS', `keys: ${JSON.stringify(word)} in ${JSON.stringify(chord)} is no key. Letters, digits, signs, F1 to F24 and ${Object.keys(NAMED_KEYS).filter((name) => !/^F\d|^ $/.test(name)).join(', ')}, Space are; chords are parted by spaces, and window_type types text. Nothing was pressed`);
}

/** All events of the chords in one go: nothing can come between a press and its release, not even our own end. */
async function press(window: Window, page: Session, chords: readonly Chord[]): Promise<void> {
  const sent: Array<Promise<Json>> = [];
  const event = (params: Json): void => void sent.push(window.send(page, 'Input.dispatchKeyEvent', params));
  for (const { modifiers, key, code, number, text } of chords) {
    let held = 0;
    for (const one of modifiers) event({ type: 'rawKeyDown', key: one, code: `${one}Left`, windowsVirtualKeyCode: MODIFIER_CODES[one], modifiers: (held |= MODIFIERS[one]) });
    if (key) {
      const common = { key, code, windowsVirtualKeyCode: number, modifiers: held };
      event({ type: text === undefined ? 'rawKeyDown' : 'keyDown', ...common, ...(text !== undefined && { text, unmodifiedText: text }) });
      event({ type: 'keyUp', ...common });
    }
    for (const one of [...modifiers].reverse()) event({ type: 'keyUp', key: one, code: `${one}Left`, windowsVirtualKeyCode: MODIFIER_CODES[one], modifiers: (held &= ~MODIFIERS[one]) });
  }
  await all(sent);
}

/** Every one of them, before the first failure is told. */
async function all(sent: ReadonlyArray<Promise<unknown>>): Promise<void> {
  const failed = (await Promise.allSettled(sent)).find((one) => one.status === 'rejected');
  if (failed) throw failed.reason;
}

// --------------------------------------------------------------------------------------------------------- waiting

/** Waits until nothing changes and nothing is loaded any more; false if the window does not come to rest. */
async function settle(window: Window, frames: readonly Frame[], since: number, quietMs: number, signal: Cancellation): Promise<boolean> {
  const giveUpAt = performance.now() + Math.max(SETTLE_MS, 2 * quietMs);
  const before = new Set(window.open);
  for (;;) {
    const left = giveUpAt - performance.now();
    if (left <= 0 || signal.aborted) return false;
    const rested = await Promise.all(frames.map((frame) => window.inFrame(frame, 'quiet', [quietMs, left], left + LOOK_MS).catch((error) => {
      if (window.dialog) throw error;
      return window.frames.get(frame.id) !== frame || frame.main === undefined; // a frame that has gone is at rest
    })));
    if (rested.includes(false)) return false;
    const isLoading = [...window.open].some((id) => !before.has(id));
    const traffic = performance.now() - Math.max(window.trafficAt, since);
    if (!isLoading && traffic >= quietMs) return true;
    await new Promise((resolve) => setTimeout(resolve, Math.max(5, Math.min(isLoading ? quietMs : quietMs - traffic, left)))); // then looks again
  }
}

// --------------------------------------------------------------------------------------------------------- actions
// An action looks, does one thing, waits until the window is at rest, looks again, and tells what is different.

type Target = { frame: Frame; id: number; row: Row | undefined };
type Asked = { window: Window; args: Json; signal: Cancellation; pictures: string; progress: (text: string) => void };

async function act(asked: Asked, act: (before: View) => Promise<string>, quietMs = QUIET_MS): Promise<Json> {
  const { window, signal } = asked;
  const before = await viewLoaded(window, false, true);
  const world = before.frames[0]?.world;
  const started = performance.now();
  let done = '';
  try {
    done = await act(before);
    const settled = await settle(window, before.frames, started, quietMs, signal);
    const after = await viewAgain(window, started + SETTLE_MS + LOOK_MS);
    if (before.frames[0]?.world !== world) return { done, settled, changes: '', reloaded: true, message: 'the window was reloaded: uids of before are gone, window_snapshot shows what is there now' };
    const focus = after.rows.find((row) => row.states.split(' ').includes('focused'));
    return { done, settled, changes: changesOf(before.rows, after.rows), ...(focus && { focus: lineOf(focus) }), ...(!settled && { message: 'it still changes: this is how it is now' }) };
  } catch (error) {
    if (!window.dialog) throw error;
    return { done: done || 'done', settled: false, changes: '', dialog: { type: window.dialog.type, message: window.dialog.message }, message: messageOf(window.dialogError()) };
  }
}

/** Looks at what is there to be used: a page that is just loading shows nothing yet. */
async function viewLoaded(window: Window, verbose: boolean, andWatch: boolean): Promise<View> {
  const giveUpAt = performance.now() + LOADING_MS;
  for (;;) {
    const looked = await view(window, verbose, andWatch);
    const [page] = looked.frames;
    if (looked.rows.length || !page || performance.now() > giveUpAt) return looked;
    await changed(window, page, QUIET_MS);
  }
}

/** Looks again where a reload comes in between. */
async function viewAgain(window: Window, until: number): Promise<View> {
  for (;;) {
    try {
      return await view(window);
    } catch (error) {
      if (errorName(error) !== 'E_RELOADED' || performance.now() > until) throw error;
      await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
    }
  }
}

const UID = /^([a-z]{1,4})(\d{1,9})$/;

/** The node that a uid or a text means. */
async function targetOf(window: Window, rows: readonly Row[], wanted: { uid?: unknown; text?: unknown }): Promise<Target> {
  const { uid, text } = wanted;
  if (typeof uid === 'string') return byUid(window, rows, uid);
  if (typeof text !== 'string') throw failure('E_ARGUMENTS', 'uid or text is needed: which node? window_snapshot shows them. Nothing was done');
  const found = innermost(rows, matching(rows, text));
  const first = rows[found[0] ?? -1];
  if (!first) {
    const near = rows.filter((row) => INTERACTIVE.has(row.role) && row.name && text.toLowerCase().split(/\W+/).some((word) => word.length > 2 && row.name.toLowerCase().includes(word))).slice(0, 5).map((row) => lineOf(row));
    throw failure('E_NO_MATCH', `nothing in the window says ${JSON.stringify(text)}${near.length ? `; perhaps one of these: ${near.join('; ')}` : ''}. window_snapshot {"find":...} looks for a part of it, window_wait_for waits until it is there. Nothing was done`);
  }
  if (found.length > 1) throw failure('E_AMBIGUOUS', `${found.length} nodes say ${JSON.stringify(text)}: ${found.slice(0, 10).map((at) => rows[at]).filter((row) => row !== undefined).map((row) => lineOf(row, row.role === 'text')).join('; ')}. Call again with the uid of one. Nothing was done`);
  return byUid(window, rows, first.uid);
}

/** Of nodes in one another the innermost; of several apart those that can be used, if there are any. */
export function innermost(rows: readonly Row[], found: number[]): number[] {
  const clickable = found.filter((at) => rows[at]?.uid);
  const usable = clickable.filter((at) => INTERACTIVE.has(rows[at]?.role ?? ''));
  const chosen = usable.length ? usable : clickable;
  return chosen.filter((at) => !chosen.some((other) => other > at && ancestors(rows, other).includes(rows[at] as Row))); // at is one of rows
}

async function byUid(window: Window, rows: readonly Row[], uid: string): Promise<Target> {
  const [, prefix = '', number = ''] = UID.exec(uid) ?? [];
  if (!prefix) throw failure('E_UID', `${JSON.stringify(uid)} is no uid: uids look like a12, and window_snapshot shows them. Nothing was done`);
  await Promise.all([...window.frames.values()].filter((one) => one.main !== undefined && !one.prefix).map((frame) => window.prefixOf(frame).catch(() => '')));
  const frame = [...window.frames.values()].find((one) => one.prefix === prefix && one.main !== undefined);
  if (!frame) throw failure('E_UID', `there is no document ${JSON.stringify(prefix)} any more, so no ${uid}: its window or webview was closed or reloaded. window_snapshot shows what is there now. Nothing was done`);
  return { frame, id: Number(number), row: rows.find((row) => row.uid === uid) };
}

type Place = { page: Session; x: number; y: number; box: Box; what: string };

const PROBLEMS: Record<string, [code: string, text: string]> = {
  gone: ['E_UID', 'is not in the window any more: window_snapshot shows what is there now'],
  hidden: ['E_NOT_READY', 'is not visible: something has to open or show it first'],
  disabled: ['E_NOT_READY', 'is disabled, and stayed so: something else has to be done first'],
  moving: ['E_NOT_READY', 'does not stay in its place: call again when it has come to rest'],
  covered: ['E_COVERED', 'is covered by'],
  'out of view': ['E_NOT_READY', 'cannot be brought into view: scroll what it is in with window_scroll'],
};

/** Where a node is in its page, once it can be clicked. */
async function placeOf(window: Window, { frame, id, row }: Target, needsEnabled = true): Promise<Place> {
  const found = await window.inFrame(frame, 'prepare', [id, needsEnabled, PREPARE_MS], PREPARE_MS + LOOK_MS);
  const name = row ? lineOf(row) : found.what || `${frame.prefix}${id}`;
  const refuse = (problem: string, by = ''): Error => {
    const [code, text] = PROBLEMS[problem] ?? ['E_NOT_READY', problem];
    return failure(code, `${name} ${text}${by ? ` ${by}: close that (window_press_key Escape), or click there instead` : ''}. Nothing was done`);
  };
  if ('problem' in found) throw refuse(found.problem, found.by);
  let { x, y } = found;
  const box = { ...found.box };
  let at = frame;
  for (let owner = await window.ownerOf(at); owner; owner = await window.ownerOf(at)) {
    let begins = await window.inFrame(owner.frame, 'origin', [owner.id, x, y]);
    if (begins?.isOutside && (await window.inFrame(owner.frame, 'scrollTo', [owner.id]))) begins = await window.inFrame(owner.frame, 'origin', [owner.id, x, y]);
    if (!begins) throw refuse('gone');
    if (begins.covered !== undefined && needsEnabled) throw refuse('covered', begins.covered);
    [x, y, box.x, box.y] = [x + begins.x, y + begins.y, box.x + begins.x, box.y + begins.y];
    at = owner.frame;
  }
  return { page: at.session, x, y, box, what: row ? lineOf(row) : found.what };
}

function modifierMask(modifiers: unknown): number {
  return (Array.isArray(modifiers) ? modifiers : []).reduce((mask: number, one) => mask | (MODIFIERS[MODIFIER_NAMES[String(one).toLowerCase()] ?? 'Shift'] ?? 0), 0);
}

/** Mouse events in one go, as keys are. */
function mouse(window: Window, page: Session, events: ReadonlyArray<Json>): Promise<void> {
  return all(events.map((event) => window.send(page, 'Input.dispatchMouseEvent', event)));
}

async function click(asked: Asked): Promise<Json> {
  const { window, args } = asked;
  const { button = 'left', count = 1 } = args;
  const modifiers = modifierMask(args.modifiers);
  return act(asked, async ({ rows }) => {
    const { page, x, y, what } = await placeOf(window, await targetOf(window, rows, args));
    const events: Json[] = [{ type: 'mouseMoved', x, y, modifiers }];
    for (let clickCount = 1; clickCount <= Number(count); clickCount++) for (const type of ['mousePressed', 'mouseReleased']) events.push({ type, x, y, button, buttons: type === 'mousePressed' ? ({ left: 1, right: 2, middle: 4 }[String(button)] ?? 1) : 0, clickCount, modifiers });
    await mouse(window, page, events);
    return `${Number(count) > 1 ? 'double-clicked' : button === 'right' ? 'right-clicked' : 'clicked'} ${what}`;
  });
}

async function hover(asked: Asked): Promise<Json> {
  const { window, args } = asked;
  return act(asked, async ({ rows }) => {
    const { page, x, y, what } = await placeOf(window, await targetOf(window, rows, args), false);
    await mouse(window, page, [{ type: 'mouseMoved', x: x - 1, y }, { type: 'mouseMoved', x, y }]);
    return `the mouse rests on ${what}`;
  }, HOVER_MS);
}

/** A uid, or the text of a node. */
const either = (value: unknown, rows: readonly Row[]): { uid?: unknown; text?: unknown } => (typeof value === 'string' && UID.test(value) && (rows.some((row) => row.uid === value) || !matching(rows, value).length) ? { uid: value } : { text: value });

async function drag(asked: Asked): Promise<Json> {
  const { window, args } = asked;
  return act(asked, async ({ rows }) => {
    const source = await targetOf(window, rows, either(args.from, rows));
    const from = await placeOf(window, source);
    const to = await placeOf(window, await targetOf(window, rows, either(args.to, rows)), false);
    const { page } = from;
    await window.inFrame(source.frame, 'expectDrag', []);
    await window.send(page, 'Input.setInterceptDrags', { enabled: true });
    const data = new Promise<unknown>((resolve) => (window.onDragData = resolve));
    let isDown = false;
    try {
      isDown = true;
      const held = { button: 'left', buttons: 1 };
      await mouse(window, page, [{ type: 'mouseMoved', x: from.x, y: from.y }, { type: 'mousePressed', x: from.x, y: from.y, clickCount: 1, ...held }, ...[0.05, 0.2, 0.5].map((part) => ({ type: 'mouseMoved', x: from.x + (to.x - from.x) * part, y: from.y + (to.y - from.y) * part, ...held }))]);
      if (await window.inFrame(source.frame, 'dragged', [])) await drop(window, page, to, data); // HTML5: the page has taken it up
      else await mouse(window, page, [{ type: 'mouseMoved', x: to.x - 1, y: to.y, ...held }, { type: 'mouseMoved', x: to.x, y: to.y, ...held }]);
      await mouse(window, page, [{ type: 'mouseReleased', x: to.x, y: to.y, button: 'left', buttons: 0, clickCount: 1 }]);
      isDown = false;
    } finally {
      window.onDragData = undefined;
      if (isDown) await mouse(window, page, [{ type: 'mouseReleased', x: from.x, y: from.y, button: 'left', buttons: 0, clickCount: 1 }]).catch(() => {}); // what failed is told
      await window.send(page, 'Input.setInterceptDrags', { enabled: false }).catch(() => {}); // the same
    }
    return `dragged ${from.what} to ${to.what}`;
  });
}

async function drop(window: Window, page: Session, { x, y }: Place, dragged: Promise<unknown>): Promise<void> {
  const data = await within(dragged, DRAG_MS, 'the page has begun to drag, but the browser does not tell what');
  for (const type of ['dragEnter', 'dragOver', 'dragOver', 'drop']) await window.send(page, 'Input.dispatchDragEvent', { type, x, y, data });
}

function within<T>(wait: Promise<T>, ms: number, problem: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const inTime = deadline(ms, () => reject(failure('E_TIMEOUT', `${problem} (${ms} ms)`)));
    wait.then(resolve, reject).finally(inTime);
  });
}

async function scroll(asked: Asked): Promise<Json> {
  const { window, args } = asked;
  const [deltaX, deltaY] = [Number(args.dx ?? 0), Number(args.dy ?? 0)];
  return act(asked, async ({ rows, frames }) => {
    if (args.uid === undefined && !deltaX && !deltaY) throw failure('E_ARGUMENTS', 'uid brings a node into view; dx and dy (pixels) scroll what is there. Nothing was done');
    if (args.uid !== undefined && !deltaX && !deltaY) {
      const { frame, id, row } = await targetOf(window, rows, args);
      if (!(await window.inFrame(frame, 'scrollTo', [id]))) throw failure('E_UID', `${String(args.uid)} ${PROBLEMS.gone?.[1] ?? ''}. Nothing was done`);
      return `brought ${row ? lineOf(row) : String(args.uid)} into view`;
    }
    const place = args.uid === undefined ? undefined : await placeOf(window, await targetOf(window, rows, args), false);
    const page = place?.page ?? window.workbench();
    const size = place ? undefined : await window.evaluate(frames[0] ?? window.mainFrame(page), '({ x: innerWidth / 2, y: innerHeight / 2 })');
    const { x, y } = place ?? (isObject(size) ? { x: Number(size.x), y: Number(size.y) } : { x: 1, y: 1 });
    await mouse(window, page, [{ type: 'mouseWheel', x, y, deltaX, deltaY }]);
    return `scrolled ${place ? place.what : 'the middle of the window'} by ${deltaX}, ${deltaY}`;
  });
}

async function pressKey(asked: Asked): Promise<Json> {
  const { window, args } = asked;
  const chords = parseKeys(String(args.keys));
  if (window.dialog) return answerDialog(asked, chords);
  return act(asked, async () => {
    await press(window, window.workbench(), chords);
    return `pressed ${String(args.keys)}`;
  });
}

async function answerDialog({ window }: Asked, chords: readonly Chord[], promptText?: string): Promise<Json> {
  const { dialog } = window;
  const key = chords.length === 1 ? chords[0]?.key : '';
  if (!dialog || (key !== 'Enter' && key !== 'Escape')) throw window.dialogError();
  await window.send(dialog.session, 'Page.handleJavaScriptDialog', { accept: key === 'Enter', ...(dialog.type === 'prompt' && key === 'Enter' && { promptText: promptText ?? dialog.text }) });
  window.dialog = undefined;
  return { done: `${key === 'Enter' ? 'accepted' : 'dismissed'} the dialog ${JSON.stringify(dialog.message)}`, settled: true, changes: '' };
}

async function type(asked: Asked): Promise<Json> {
  const { window, args } = asked;
  const text = String(args.text);
  if (window.dialog) {
    if (window.dialog.type !== 'prompt') throw window.dialogError();
    return answerDialog(asked, parseKeys('Enter'), text);
  }
  let value: string | undefined;
  const body = await act(asked, async ({ rows, frames }) => {
    const target = args.uid === undefined ? await focusedTaker(window, frames) : await targetOf(window, rows, args);
    const taker = await window.inFrame(target.frame, 'taker', [target.id]);
    if (!taker) throw failure('E_UID', `${String(args.uid)} ${PROBLEMS.gone?.[1] ?? ''}. Nothing was typed`);
    const done = taker.kind === 'select' ? await chooseOption(window, target, taker, text) : taker.kind === 'check' ? await setCheck(window, target, taker, text) : await typeText(window, target, taker, args, text);
    if (args.submit === true) {
      await settle(window, frames, performance.now(), QUIET_MS, asked.signal); // what follows the text (suggestions, a folder's list) comes first, as it does for a person
      await press(window, window.pageOf(target.frame.session), parseKeys('Enter'));
    } else value = (await window.inFrame(target.frame, 'taker', [target.id]).catch(() => undefined))?.value;
    return done;
  });
  return { ...body, ...(value && { value: shorten(value, NAME_CAP) }) };
}

/** What has the focus and takes text: in the frame that has it, from the outside in. */
async function focusedTaker(window: Window, frames: readonly Frame[]): Promise<Target> {
  for (const frame of [...frames].reverse()) {
    const taker = await window.inFrame(frame, 'taker', [0]).catch(() => undefined);
    const hasFocus = taker && (taker.kind === 'text' || taker.kind === 'code') && (await window.evaluate(frame, 'document.hasFocus()').catch(() => false)) === true;
    if (taker && hasFocus) return { frame, id: taker.id, row: undefined };
  }
  throw failure('E_NO_FOCUS', 'nothing that takes text has the focus: name it with uid, or click it first. window_press_key presses single keys wherever the focus is. Nothing was typed');
}

async function chooseOption(window: Window, { frame, id }: Target, { options = [], what }: Taker, text: string): Promise<string> {
  if (await window.inFrame(frame, 'choose', [id, text])) return `chose ${JSON.stringify(text)} in ${what}`;
  throw failure('E_NO_MATCH', `${what} has no option ${JSON.stringify(text)}: it has ${options.slice(0, 50).map((one) => JSON.stringify(one)).join(', ')}. Nothing was done`);
}

const YES = ['true', 'on', 'yes', 'checked', '1'];
const NO = ['false', 'off', 'no', 'unchecked', '0'];

async function setCheck(window: Window, target: Target, { value, what }: Taker, text: string): Promise<string> {
  const word = text.trim().toLowerCase();
  if (!YES.includes(word) && !NO.includes(word)) throw failure('E_ARGUMENTS', `${what} takes "true" or "false", not ${JSON.stringify(shorten(text, 60))}. Nothing was done`);
  const isWanted = YES.includes(word);
  if ((value === 'true') !== isWanted) {
    const { page, x, y } = await placeOf(window, target);
    await mouse(window, page, [{ type: 'mouseMoved', x, y }, { type: 'mousePressed', x, y, button: 'left', buttons: 1, clickCount: 1 }, { type: 'mouseReleased', x, y, button: 'left', buttons: 0, clickCount: 1 }]);
  }
  return `${what} is ${isWanted ? 'checked' : 'not checked'}`;
}

async function typeText(window: Window, target: Target, { kind, oneLine, what }: Taker, args: Json, text: string): Promise<string> {
  if (kind !== 'text' && kind !== 'code') throw failure('E_NO_FOCUS', `${what} takes no text. Name a textbox, a combobox or a check box; window_press_key presses single keys. Nothing was typed`);
  if (oneLine && /[\r\n]/.test(text)) throw failure('E_ARGUMENTS', `${what} has one line, and the text has several: use submit to press Enter behind it. Nothing was typed`);
  const page = window.pageOf(target.frame.session);
  if (args.uid !== undefined) {
    await placeOf(window, target);
    if (!(await window.inFrame(target.frame, 'focus', [target.id]))) throw failure('E_NOT_READY', `${what} does not take the focus. Nothing was typed`);
  }
  if (args.clear === true) {
    const isMac = /^Mac/.test(String(await window.evaluate(target.frame, 'navigator.platform')));
    await press(window, page, parseKeys(`${isMac ? 'Meta' : 'Control'}+A Backspace`));
  }
  if (kind === 'text' || !(await window.inFrame(target.frame, 'paste', [target.id, text]))) await window.send(target.frame.session, 'Input.insertText', { text });
  return `typed ${text.length} characters into ${what}`;
}

// ---- looking

async function snapshot({ window, args }: Asked): Promise<Json> {
  const verbose = args.verbose === true;
  const looked = await viewLoaded(window, verbose, false).catch((error) => {
    if (!window.dialog) throw error;
  });
  const { dialog } = window;
  if (!looked) return { snapshot: `dialog ${String(dialog?.type)} ${JSON.stringify(dialog?.message)}`, title: window.workbench().title, dialog: { type: dialog?.type, message: dialog?.message }, message: messageOf(window.dialogError()) };
  const { rows, silent, more } = looked;
  const title = window.workbench().title;
  const depth = typeof args.depth === 'number' ? args.depth : Infinity;
  const notes = [...silent.map((one) => `a frame does not answer: ${one}`), ...(more ? [`${more} nodes beyond the first 20000 of their frame are not here: only scrolling to them shows them`] : []), ...(rows.length ? [] : ['the window shows nothing yet: it is loading. window_wait_for waits for a text'])];
  const common = { title, ...(notes.length && { notes }) };
  let shown = rows;
  if (typeof args.within === 'string') {
    const at = rows.findIndex((row) => row.uid === args.within);
    const places = at >= 0 ? [at] : UID.test(args.within) && !matching(rows, args.within).length ? [] : matching(rows, args.within);
    if (!places.length) throw failure(UID.test(args.within) ? 'E_UID' : 'E_NO_MATCH', `${JSON.stringify(args.within)} is not in the window (any more): window_snapshot without \`within\` shows what is`);
    shown = subtree(rows, places[0] ?? 0);
  }
  if (typeof args.find === 'string') return { ...common, ...foundText(shown, args.find, Number.isFinite(depth) ? depth : 2, verbose) };
  const { text, left } = treeText(shown, { depth, verbose });
  return { ...common, snapshot: text, ...(left && { left }) };
}

/** Each match with what it stands in and what is below it. */
function foundText(rows: readonly Row[], find: string, depth: number, verbose: boolean): Json {
  const found = matching(rows, find, true).filter((at, _index, every) => !every.some((other) => other < at && subtree(rows, other).includes(rows[at] as Row))); // at is one of rows
  const parts = found.slice(0, FOUND_CAP).map((at) => {
    const path = ancestors(rows, at).map((row) => lineOf(row)).join(' > ');
    return `${path ? `in ${path}:\n` : ''}${treeText(subtree(rows, at), { depth, verbose, lines: 40, characters: 4000 }).text}`;
  });
  const left = Math.max(0, found.length - FOUND_CAP);
  return { snapshot: shorten(parts.join('\n'), TEXT_CAP) || `nothing says ${JSON.stringify(find)}`, found: found.length, ...(left && { left }) };
}

/** Waits until the window says something, or says it no more. */
async function waitFor({ window, args, signal }: Asked): Promise<Json> {
  const { text, uid, gone } = args;
  const started = performance.now();
  const giveUpAt = started + Number(args.timeout ?? 10) * 1000;
  const wanted = typeof gone === 'string' ? gone : text;
  const isGone = gone !== undefined && gone !== false;
  if (typeof wanted !== 'string' && typeof uid !== 'string') throw failure('E_ARGUMENTS', 'what is waited for? text (that it appears), gone (that it vanishes), or uid (that it can be used; with gone: that it is gone)');
  for (let looked: View | undefined; ; ) {
    const problem = await (async (): Promise<string> => {
      looked = await view(window);
      const rows = looked.rows;
      const there = typeof wanted === 'string' ? matching(rows, wanted, true).map((at) => rows[at]).find((row) => row !== undefined) : rows.find((row) => row.uid === uid && !row.states.split(' ').includes('disabled'));
      return isGone === (there === undefined) ? `\n${there ? lineOf(there) : ''}` : there ? `still there: ${lineOf(there)}` : 'not there';
    })().catch((error) => {
      if (errorName(error) !== 'E_RELOADED') throw error;
      return 'the window is reloading';
    });
    const waitedMs = Math.round(performance.now() - started);
    if (problem.startsWith('\n')) return { found: true, waitedMs, ...(problem.length > 1 && { node: problem.slice(1) }) };
    const left = giveUpAt - performance.now();
    if (left <= 0 || signal.aborted) return { found: false, waitedMs, message: `${JSON.stringify(isGone ? (wanted ?? uid) : (wanted ?? uid))}: ${problem} after ${waitedMs} ms. window_snapshot shows what is there` };
    // Until something changes; a frame that comes or goes is noticed by its page.
    await Promise.race((looked?.frames ?? []).map((frame) => changed(window, frame, Math.min(left, 1000))).concat(new Promise<void>((resolve) => setTimeout(resolve, Math.min(left, 1000)))));
  }
}

/** The next change in a frame. */
async function changed(window: Window, frame: Frame, ms: number): Promise<void> {
  await window.evaluate(frame, `new Promise((resolve) => { const end = () => (observer.disconnect(), clearTimeout(late), setTimeout(resolve, 20)); const observer = new MutationObserver(end); observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true }); const late = setTimeout(end, ${Math.round(ms)}); })`, ms + LOOK_MS).catch(() => {}); // then one looks again
}

async function list({ window }: Asked): Promise<Json> {
  await window.settledSessions();
  const views = await view(window).catch(() => undefined);
  const targets = [...window.sessions.values()].filter(({ type }) => type !== 'iframe').map((session) => ({ id: session.targetId.slice(0, 8), kind: session === window.workbench() ? 'workbench' : session.type, title: session.title, url: shorten(session.url, 300) }));
  const webviews = (views?.rows ?? []).filter((row) => row.role === 'frame');
  const inner = await Promise.all([...window.frames.values()].filter((frame) => frame.main !== undefined && frame.parentId !== undefined || isWebview(frame)).map(async (frame) => ({ id: frame.id.slice(0, 8), kind: 'frame', title: String(await window.evaluate(frame, 'document.title').catch(() => '')) || titleOf(webviews, frame), url: shorten(frame.url, 300) })));
  return { targets: [...targets, ...inner].slice(0, 100), ...(window.dialog && { dialog: { type: window.dialog.type, message: window.dialog.message } }) };
}

const isWebview = (frame: Frame): boolean => frame.session.type === 'iframe' || frame.id !== frame.session.targetId;
const titleOf = (rows: readonly Row[], frame: Frame): string => rows.find((row) => frame.owner && row.uid === `${frame.owner.frame.prefix}${frame.owner.id}`)?.name ?? '';

/** Evaluates in the page's own world: of the workbench, or of a target or frame by its id or title. */
async function evaluate({ window, args }: Asked): Promise<Json> {
  const frame = await frameOf(window, args.target);
  if (frame.main === undefined) throw failure('E_RELOADED', 'that page is just loading: call again');
  const { result, exceptionDetails } = await window.send(frame.session, 'Runtime.evaluate', { expression: String(args.expression), contextId: frame.main, awaitPromise: true, returnByValue: true, userGesture: true, timeout: COMMAND_MS - 1000 });
  if (exceptionDetails) throw failure('E_EVALUATE', exceptionText(exceptionDetails));
  const value = isObject(result) ? result.value : undefined;
  const text = JSON.stringify(value) ?? 'undefined';
  return text.length > VALUE_CAP ? { value: text.slice(0, VALUE_CAP), truncated: true } : { value: value ?? null, ...(value === undefined && isObject(result) && { message: String(result.description ?? result.type) }) };
}

async function frameOf(window: Window, target: unknown): Promise<Frame> {
  if (target === undefined || target === 'workbench') return window.mainFrame(window.workbench());
  const wanted = String(target);
  const frames = [...window.frames.values()];
  const known = frames.find((frame) => frame.id.startsWith(wanted)) ?? frames.find((frame) => frame.session.targetId.startsWith(wanted));
  if (known && wanted.length >= 8) return known;
  const views = await view(window);
  const fits = frames.filter((frame) => titleOf(views.rows, frame).toLowerCase().includes(wanted.toLowerCase()) && titleOf(views.rows, frame));
  const deepest = fits.at(-1); // a webview's outer frame stands before its inner one
  if (!deepest) throw failure('E_NO_MATCH', `no target is called ${JSON.stringify(wanted)}: window_list shows them, by id and title`);
  return frames.find((frame) => frame.owner?.frame === deepest) ?? deepest;
}

// -------------------------------------------------------------------------------------------------------- pictures

async function screenshot(asked: Asked): Promise<Json> {
  const { window, args, pictures } = asked;
  if (window.dialog) throw window.dialogError();
  await window.settledSessions();
  const format = args.format === 'jpeg' ? 'jpeg' : 'png';
  const { page, clip } = await framed(asked);
  const { width, height } = clip;
  const ratio = Number(await window.evaluate(window.mainFrame(page), 'devicePixelRatio')) || 1;
  const scale = args.full === true ? 1 : Math.min(1, PICTURE_SIDE / (Math.max(width, height) * ratio), Math.sqrt(PICTURE_AREA / (width * height * ratio * ratio)));
  const take = async (at: number): Promise<string> => String((await window.send(page, 'Page.captureScreenshot', { format, ...(format === 'jpeg' && { quality: 85 }), clip: { ...clip, scale: at }, captureBeyondViewport: false }, 2 * COMMAND_MS)).data);
  const data = await take(scale);
  const whole = scale < 1 ? await take(1) : data;
  const file = keepPicture(pictures, format, Buffer.from(whole, 'base64'));
  return { file, width: Math.round(width * ratio * scale), height: Math.round(height * ratio * scale), scale: Math.round(scale * 1000) / 1000, image: { data, mimeType: `image/${format}` } };
}

/** What the picture is of: the page, or the part of it where a node is. */
async function framed({ window, args }: Asked): Promise<{ page: Session; clip: Box }> {
  if (args.uid === undefined) {
    const page = window.workbench();
    const size = await window.evaluate(window.mainFrame(page), '({ width: innerWidth, height: innerHeight })');
    return { page, clip: { x: 0, y: 0, width: isObject(size) ? Number(size.width) : 1, height: isObject(size) ? Number(size.height) : 1 } };
  }
  const { page, box } = await placeOf(window, await byUid(window, [], String(args.uid)), false);
  return { page, clip: { x: Math.max(0, box.x), y: Math.max(0, box.y), width: Math.max(1, box.width + Math.min(0, box.x)), height: Math.max(1, box.height + Math.min(0, box.y)) } };
}

let pictureCount = 0;

function keepPicture(dir: string, format: string, bytes: Buffer): string {
  privateDir(dir, 0);
  const old = fs.readdirSync(dir).filter((name) => /^picture-.*\.(png|jpeg)$/.test(name)).sort();
  for (const name of old.slice(0, Math.max(0, old.length - PICTURES_KEPT + 1))) fs.rmSync(path.join(dir, name), { force: true });
  const file = path.join(dir, `picture-${new Date().toISOString().replace(/[:.]/g, '-')}-${process.pid}-${++pictureCount}.${format}`);
  fs.writeFileSync(file, bytes, { mode: 0o600, flag: 'wx' });
  return file;
}

// --------------------------------------------------------------------------------------------- console and network
// What every page, webview and worker says and loads, in rings. A cursor goes on where the last answer ended.

const LEVELS = ['debug', 'info', 'warning', 'error'];
const LEVEL_OF: Record<string, string> = { verbose: 'debug', debug: 'debug', trace: 'debug', timeEnd: 'debug', warn: 'warning', warning: 'warning', error: 'error', assert: 'error' };

function keep<T extends { cursor: number }>(ring: T[], entry: T): void {
  ring.push(entry);
  if (ring.length > RING_CAP) ring.shift();
}

const isoOf = (ms: unknown): string => new Date(typeof ms === 'number' && Number.isFinite(ms) ? ms : Date.now()).toISOString();
const labelOf = (session: Session): string => (session.type === 'page' ? 'workbench' : `${session.type} ${session.title || session.url}`.slice(0, 120));

/** The frame that a message comes from: a webview in the workbench's process is known by its context alone. */
function speaker(window: Window, session: Session | undefined, contextId: unknown): string {
  if (!session) return '';
  const frame = [...window.frames.values()].find((one) => one.session === session && (one.main === contextId || one.world === contextId));
  return frame && frame.id !== session.targetId ? `frame ${frame.id.slice(0, 8)}` : labelOf(session);
}

function onConsoleApiCalled(window: Window, params: Json, session: Session | undefined): void {
  const frames = isObject(params.stackTrace) && Array.isArray(params.stackTrace.callFrames) ? params.stackTrace.callFrames : [];
  const at = frames.find(isObject);
  const text = consoleText((Array.isArray(params.args) ? params.args : []).map(shownValue));
  keep(window.messages, { cursor: ++window.lastCursor, at: isoOf(params.timestamp), level: LEVEL_OF[String(params.type)] ?? 'info', text, where: speaker(window, session, params.executionContextId), source: at ? `${shorten(String(at.url), 200)}:${Number(at.lineNumber) + 1}` : '' });
}

/** The arguments of a console call: the first may say how the others are shown. */
function consoleText([first = '', ...rest]: string[]): string {
  const text = first.replace(/%([sdifoOc%])/g, (sign, kind: string) => (kind === '%' ? '%' : !rest.length ? sign : kind === 'c' ? (rest.shift(), '') : String(rest.shift())));
  return [text, ...rest].join(' ').slice(0, ENTRY_CAP);
}

/** A value as the console shows it. */
function shownValue(value: unknown): string {
  if (!isObject(value)) return '';
  if (value.type === 'string') return String(value.value);
  if ('value' in value) return JSON.stringify(value.value) ?? 'undefined';
  const preview = isObject(value.preview) && Array.isArray(value.preview.properties) ? value.preview.properties.filter(isObject).map((one) => `${String(one.name)}: ${String(one.value)}`).join(', ') : '';
  return preview ? `${String(value.className ?? value.description ?? '')} {${preview}}` : String(value.description ?? value.unserializableValue ?? value.type);
}

function onExceptionThrown(window: Window, params: Json, session: Session | undefined): void {
  const details = isObject(params.exceptionDetails) ? params.exceptionDetails : {};
  keep(window.messages, { cursor: ++window.lastCursor, at: isoOf(params.timestamp), level: 'error', text: `uncaught ${exceptionText(details)}`, where: speaker(window, session, details.executionContextId), source: details.url ? `${shorten(String(details.url), 200)}:${Number(details.lineNumber) + 1}` : '' });
}

function onEntryAdded(window: Window, { entry }: Json, session: Session | undefined): void {
  if (!isObject(entry)) return;
  keep(window.messages, { cursor: ++window.lastCursor, at: isoOf(entry.timestamp), level: LEVEL_OF[String(entry.level)] ?? 'info', text: String(entry.text).slice(0, ENTRY_CAP), where: session ? labelOf(session) : '', source: entry.url ? `${shorten(String(entry.url), 200)}${entry.lineNumber === undefined ? '' : `:${Number(entry.lineNumber) + 1}`}` : '' });
}

function onRequestWillBeSent(window: Window, params: Json, session: Session | undefined): void {
  const { requestId, request, type = '', frameId } = params;
  if (!session || !isObject(request) || String(request.url).startsWith('data:')) return;
  window.trafficAt = performance.now();
  if (!String(request.url).startsWith('blob:')) window.open.add(`${session.id} ${String(requestId)}`);
  const frame = window.frames.get(String(frameId));
  keep(window.requests, {
    cursor: ++window.lastCursor, id: `r${window.lastCursor}`, at: isoOf(Number(params.wallTime) * 1000), method: String(request.method), url: shorten(String(request.url), ENTRY_CAP), type: String(type), where: frame && frame.id !== session.targetId ? `frame ${frame.id.slice(0, 8)}` : labelOf(session), status: null, size: null, ms: null, failed: '',
    session, requestId: String(requestId), requestHeaders: isObject(request.headers) ? request.headers : {}, responseHeaders: {}, started: Number(params.timestamp),
  });
}

function requestOf(window: Window, session: Session | undefined, requestId: unknown): Request | undefined {
  return window.requests.findLast((one) => one.requestId === requestId && one.session === session);
}

function onResponseReceived(window: Window, { requestId, response }: Json, session: Session | undefined): void {
  const known = requestOf(window, session, requestId);
  if (known && isObject(response)) Object.assign(known, { status: Number(response.status), responseHeaders: isObject(response.headers) ? response.headers : {} });
  if (session && isObject(response) && String(response.mimeType) === 'text/event-stream') window.open.delete(`${session.id} ${String(requestId)}`); // it has no end
}

function onLoadingFinished(window: Window, { requestId, encodedDataLength, timestamp }: Json, session: Session | undefined): void {
  onRequestEnd(window, session, requestId, timestamp, { size: Number(encodedDataLength) });
}

function onLoadingFailed(window: Window, { requestId, errorText, timestamp }: Json, session: Session | undefined): void {
  onRequestEnd(window, session, requestId, timestamp, { failed: String(errorText) });
}

function onRequestEnd(window: Window, session: Session | undefined, requestId: unknown, timestamp: unknown, what: Partial<Request>): void {
  window.trafficAt = performance.now();
  window.open.delete(`${session?.id} ${String(requestId)}`);
  const known = requestOf(window, session, requestId);
  if (known) Object.assign(known, what, { ms: Math.round((Number(timestamp) - known.started) * 1000) });
}

/** The newest lines that fit, from a cursor on. */
function bounded(entries: ReadonlyArray<{ cursor: number; line: string }>, args: Json, last: number): Json {
  const cursor = typeof args.cursor === 'number' ? args.cursor : 0;
  const fresh = entries.filter((one) => cursor > last || one.cursor > cursor); // a cursor of another server's is none
  const picked = matchingLines(fresh.map((one) => one.line), args.pattern);
  const lines: string[] = [];
  let size = 0;
  for (const line of [...picked].reverse()) {
    size += line.length + 1;
    if (size > ANSWER_CAP) break;
    lines.unshift(line);
  }
  return { lines, cursor: last, ...(lines.length < picked.length && { more: picked.length - lines.length }) };
}

async function readConsole({ window, args }: Asked): Promise<Json> {
  await window.settledSessions();
  const least = typeof args.level === 'string' ? LEVELS.indexOf(args.level) : 0;
  const entries = window.messages.filter((one) => LEVELS.indexOf(one.level) >= least).map((one) => ({ cursor: one.cursor, line: `${one.at} ${one.level} [${one.where}] ${one.text}${one.source ? ` (${one.source})` : ''}` }));
  return bounded(entries, args, window.lastCursor);
}

async function readNetwork({ window, args }: Asked): Promise<Json> {
  await window.settledSessions();
  if (typeof args.id === 'string') return oneRequest(window, args.id);
  const entries = window.requests.map((one) => ({ cursor: one.cursor, line: `${one.id} ${one.method} ${one.failed || one.status || 'pending'} ${one.url}${one.type ? ` ${one.type}` : ''}${one.ms === null ? '' : ` ${one.ms} ms`}${one.size === null ? '' : ` ${one.size} bytes`} [${one.where}]` }));
  return bounded(entries, args, window.lastCursor);
}

async function oneRequest(window: Window, id: string): Promise<Json> {
  const known = window.requests.find((one) => one.id === id);
  if (!known) throw failure('E_NO_MATCH', `there is no request ${JSON.stringify(id)} (any more; the last ${RING_CAP} are kept): window_network without id lists them`);
  const { session, requestId, started: _started, cursor: _cursor, ...shown } = known;
  const answer = await window.send(session, 'Network.getResponseBody', { requestId }).catch((error) => ({ problem: messageOf(error) }));
  if ('problem' in answer) return { lines: [], cursor: window.lastCursor, request: { ...shown, body: null, message: `its body is not kept: ${String(answer.problem)}` } };
  const { body, base64Encoded } = answer;
  const text = String(body);
  return { lines: [], cursor: window.lastCursor, request: { ...shown, body: base64Encoded === true ? `(${Buffer.byteLength(text, 'base64')} bytes that are no text)` : text.slice(0, BODY_CAP), ...(text.length > BODY_CAP && base64Encoded !== true && { left: text.length - BODY_CAP }) } };
}

/** What the tools window_* call, by their verbs. */
export const VERBS: Record<string, (asked: Asked) => Promise<Json>> = {
  list, snapshot, click, hover, drag, scroll, type, press_key: pressKey, screenshot, wait_for: waitFor, console: readConsole, network: readNetwork, evaluate,
};
