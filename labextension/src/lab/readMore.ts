import { trans } from '../components/translation';

/** Says where the documentation tells more; nothing without a page, or for what is no name of one. */
export function readMore(page: string | undefined): string | undefined {
  return page !== undefined && /^[\w-]+$/.test(page) ? trans.__('Read more: %1', `jupyter sbx help ${page}`) : undefined;
}
