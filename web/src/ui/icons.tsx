import type { JSX } from "preact";

const PATHS = {
  plus: "M12 5v14M5 12h14",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM20 20l-4-4",
  menu: "M4 7h16M4 12h16M4 17h10",
  close: "M6 6l12 12M18 6 6 18",
  send: "M12 19V5M6 11l6-6 6 6",
  clip: "M20 11.500 12.300 19a4.600 4.600 0 0 1-6.500-6.500l8-8a3 3 0 0 1 4.300 4.300l-7.800 7.700a1.500 1.500 0 0 1-2.100-2.100l7.200-7.200",
  copy: "M9 9h10v10H9zM5 15V5h10",
  check: "M5 12.500 10 17 19 7",
  again: "M20 12a8 8 0 1 1-2.400-5.700M20 4v4h-4",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  dots: "M6 12h.01M12 12h.01M18 12h.01",
  down: "M6 9l6 6 6-6",
  left: "M14 7l-5 5 5 5",
  right: "M10 7l5 5-5 5",
  gear: "M4 8h10M18 8h2M4 16h2M10 16h10M16 6v4M8 14v4",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  file: "M7 3h7l4 4v14H7zM14 3v4h4",
  arrow: "M12 5v14M6 13l6 6 6-6",
  warn: "M12 8v5M12 16.500h.01M12 3 2.500 20h19z",
  chip: "M7 7h10v10H7zM10 3v4M14 3v4M10 17v4M14 17v4M3 10h4M3 14h4M17 10h4M17 14h4",
  tool: "M14 7a4 4 0 0 1 5-3l-2.500 2.500 1 2 2 1L22 7a4 4 0 0 1-5.500 4.600L9 19a2.100 2.100 0 0 1-3-3l7.400-7.500A4 4 0 0 1 14 7Z",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Logo(): JSX.Element {
  return (
    <svg class="logo" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="9" />
      <path d="M6 12c3.300 0 3.300 2.600 6.700 2.600S16 12 19.300 12s3.400 2.600 6.700 2.600M6 18.500c3.300 0 3.300 2.600 6.700 2.600s3.300-2.600 6.600-2.600 3.400 2.600 6.700 2.600" />
    </svg>
  );
}
