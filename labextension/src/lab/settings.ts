import type { ISettingRegistry } from '@jupyterlab/settingregistry';

/** The settings of the extension. */
export interface ISandboxSettings {
  readonly defaultTemplate: string;
  /** Seconds. */
  readonly defaultTimeout: number;
  /** Milliseconds. */
  readonly pollInterval: number;
}

export const DEFAULTS: ISandboxSettings = { defaultTemplate: 'base', defaultTimeout: 3600, pollInterval: 5000 };

/** Holds the current settings, so that a change takes effect at once. */
export class Settings {
  get current(): ISandboxSettings {
    return this.values;
  }

  /** Loads the values of the registry, now and after each change. */
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
