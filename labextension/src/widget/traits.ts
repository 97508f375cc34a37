import type { AnyModel } from '@anywidget/types';

/** Applies a text trait now and whenever Python changes it; returns a function that stops it. */
export function follow(model: AnyModel, trait: string, apply: (value: string) => void): () => void {
  const read = () => {
    const value: unknown = model.get(trait);
    if (typeof value === 'string' && value !== '') {
      apply(value);
    }
  };
  model.on(`change:${trait}`, read);
  read();
  return () => {
    model.off(`change:${trait}`, read);
  };
}

/** Tells Python the value of a trait, if it is another one. */
export function tell(model: AnyModel, trait: string, value: string | number): void {
  if (model.get(trait) !== value) {
    model.set(trait, value);
    model.save_changes();
  }
}
