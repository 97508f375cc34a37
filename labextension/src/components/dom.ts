type Attributes = Readonly<Record<string, string>>;

/** Creates an element with a class, attributes and children; text is never parsed as HTML. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className: string,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  node.className = className;
  for (const [name, value] of Object.entries(attributes)) {
    node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const SVG = 'http://www.w3.org/2000/svg';

/** Creates a 16 px icon from one path in the colour of the text, hidden from screen readers. */
export function icon(path: string): SVGElement {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('class', 'sbx-icon');
  svg.setAttribute('aria-hidden', 'true');
  const shape = document.createElementNS(SVG, 'path');
  shape.setAttribute('d', path);
  svg.append(shape);
  return svg;
}

/** Creates a button with an icon; `label` is its tooltip and what screen readers say. */
export function iconButton(path: string, label: string, onClick: () => void): HTMLButtonElement {
  const button = element('button', 'sbx-IconButton', { type: 'button', title: label, 'aria-label': label });
  button.append(icon(path));
  button.addEventListener('click', event => {
    event.stopPropagation();
    onClick();
  });
  return button;
}
