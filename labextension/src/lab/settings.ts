import type { ISettingRegistry } from '@jupyterlab/settingregistry';

/** What a user can choose in the settings editor. */
export interface ISandboxSettings {
  readonly defaultTemplate: string;
  /** Seconds. */
  readonly defaultTimeout: number;
  /** Milliseconds. */
  readonly pollInterval: number;
}

export const DEFAULTS: ISandboxSettings = { defaultTemplate: 'base', defaultTimeout: 3600, pollInterval: 5000 };

/** The settings of now: it is read when needed, so a change holds at once. */
export class Settings {
  get current(): ISandboxSettings {
    return this.values;
  }

  /** Takes over the registry's values and follows them. */
  follow(settings: ISettingRegistry.ISettings, onChange: (values: ISandboxSettings) => void): void {
    const read = () => {
      this.values = { ...DEFAULTS, ...(settings.composite as Partial<ISandboxSettings>) };
      onChange(this.values);
    };
    settings.changed.connect(read);
    read();
  }

  private values: ISandboxSettings = DEFAULTS;
}
