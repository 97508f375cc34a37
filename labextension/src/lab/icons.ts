import { LabIcon } from '@jupyterlab/ui-components';

function drawn(name: string, path: string): LabIcon {
  const svgstr =
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">' +
    `<path class="jp-icon3" fill="#616161" d="${path}"/></svg>`;
  return new LabIcon({ name: `sbx:${name}`, svgstr });
}

/** The icon for sandboxes: a box with an open lid. */
export const sandboxIcon = drawn(
  'sandbox',
  'M12 2 3 7v10l9 5 9-5V7zm0 2.300L18 7.600 12 11 6 7.600zM5 9.300l6 3.400v6.600l-6-3.300zm14 0v6.700l-6 3.300v-6.600z'
);
export const filesIcon = drawn(
  'files',
  'M3 5h7l2 2h9v12H3zm12 4.500-3.500 2v4l3.500 2 3.500-2v-4zm0 1.500 1.800 1-1.800 1-1.800-1zm-2.200 2 1.500.900v2l-1.500-.900zm4.400 0v2l-1.500.900v-2z'
);
export const metricsIcon = drawn('metrics', 'M4 20V4h2v14h14v2zm3.500-5 3.800-5 3 3L18.600 7l1.600 1.200-5.700 7.500-3-3-2.400 3.300z');
export const pauseIcon = drawn('pause', 'M7 5h4v14H7zm6 0h4v14h-4z');
export const resumeIcon = drawn('resume', 'M8 5v14l11-7z');
export const timeIcon = drawn(
  'time',
  'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 2a7 7 0 1 1 0 14 7 7 0 0 1 0-14zm-1 2v6l4.200 2.500 1-1.600-3.200-1.900V7z'
);
export const killIcon = drawn('kill', 'M6 7h12l-1 14H7zm2.200 2 .7 10h6.200l.7-10zM9 3h6l1 1.500h4V6H4V4.500h4z');
export const shieldIcon = drawn(
  'shield',
  'M12 2 4 5v6c0 5 3.400 9.500 8 11 4.600-1.500 8-6 8-11V5zm0 2.100 6 2.300V11c0 3.900-2.500 7.500-6 8.900-3.500-1.400-6-5-6-8.900V6.400z'
);
export const renameIcon = drawn(
  'rename',
  'M4 16.500V20h3.500L17.800 9.700l-3.500-3.500zM19.200 8.300a1 1 0 0 0 0-1.400l-2.100-2.100a1 1 0 0 0-1.400 0l-1.300 1.300 3.500 3.500z'
);
export const snapshotIcon = drawn(
  'snapshot',
  'M9 4 7.500 6H4v13h16V6h-3.500L15 4zm3 4.500a4 4 0 1 1 0 8 4 4 0 0 1 0-8zm0 2a2 2 0 1 0 0 4 2 2 0 0 0 0-4z'
);
export const forkIcon = drawn(
  'fork',
  'M7 3a2.500 2.500 0 0 0-1 4.800v8.400a2.500 2.500 0 1 0 2 0V14h6a4 4 0 0 0 4-4V7.800a2.500 2.500 0 1 0-2 0V10a2 2 0 0 1-2 2H8V7.800A2.500 2.500 0 0 0 7 3z'
);
export const endIcon = drawn('end', 'M7 7h10v10H7zM3 3h18v18H3zm2 2v14h14V5z');
export const detailsIcon = drawn('details', 'M4 4h16v16H4zm2 2v3h12V6zm0 5v2.500h3V11zm5 0v2.500h7V11zm-5 4.500V18h3v-2.500zm5 0V18h7v-2.500z');
export const followIcon = drawn('follow', 'M11 4h2v9.200l3.600-3.600L18 11l-6 6-6-6 1.400-1.400 3.600 3.600zM5 18.500h14v2H5z');
export const windowIcon = drawn('window', 'M3 4h18v16H3zm2 5v9h14V9zm0-3v1.500h2V6zm3.500 0v1.500h2V6z');
export const homeIcon = drawn('home', 'M12 3.500 3 11h2.500v9h5v-6h3v6h5v-9H21zm0 2.600 4.500 3.800V18h-1v-6h-7v6h-1V9.900z');
export const storageIcon = drawn('storage', 'M4 4h16v6H4zm2 2v2h12V6zm-2 6h16v8H4zm2 2v4h12v-4zm2 1h3v2H8z');
export const splitIcon = drawn('split', 'M4 4h16v16H4zm2 2v12h5V6zm7 0v12h5V6z');
