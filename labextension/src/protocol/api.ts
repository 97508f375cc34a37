// Types of the routes below sbx/api, made by `jlpm api` from their description: change nothing here.
// description d1ba575b1ca9144a60642dbc22045d72bfaf54760805abc2063f5f6b25b72bed
// types bd6b621775bbaff9abeb4f8b6048fd5e8de6077f3e95bd2ff45b783b535a2e62

export interface paths {
    readonly "/info": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Describes the extension and the state of its engine; never waits for the engine. */
        readonly get: operations["get /info"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/openapi.json": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Describes the routes below ``sbx/api``. */
        readonly get: operations["get /openapi.json"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/help": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** The pages of the documentation, by their names. */
        readonly get: operations["get /help"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/help/{name}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** The text of a page, in Markdown. */
        readonly get: operations["get /help/{name}"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/help/pictures/{name}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** A picture of a page. */
        readonly get: operations["get /help/pictures/{name}"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/connections": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** ``GET connections``: every connection with its state; asks each remote one in the background. */
        readonly get: operations["get /connections"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        /** ``GET connections``: every connection with its state; asks each remote one in the background. */
        readonly patch: operations["patch /connections"];
        readonly trace?: never;
    };
    readonly "/events": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Follows the sandboxes of a connection by server-sent events. */
        readonly get: operations["get /events"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/copies": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /** Copies files and folders, and tells by server-sent events how far it is. */
        readonly post: operations["post /copies"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/kernels": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** ``GET``: the kernels in sandboxes, as ``{"kernels": [{"kernelID", "sandboxID"}]}``. */
        readonly get: operations["get /kernels"];
        readonly put?: never;
        /** ``GET``: the kernels in sandboxes, as ``{"kernels": [{"kernelID", "sandboxID"}]}``. */
        readonly post: operations["post /kernels"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/kernels/{kernel_id}/drawing": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /** ``POST kernels/{id}/drawing``: lets a page draw what a kernel sends, for some time. */
        readonly post: operations["post /kernels/{kernel_id}/drawing"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/kernels/{kernel_id}/sandbox": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /** ``POST kernels/{id}/sandbox``: makes another sandbox for a kernel, used from its restart on. */
        readonly post: operations["post /kernels/{kernel_id}/sandbox"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/kernelspecs/{name}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** ``GET``: ``{"kernel", "isThere", "shown"}``, the sandboxed variant of a specification. */
        readonly get: operations["get /kernelspecs/{name}"];
        readonly put?: never;
        /** ``GET``: ``{"kernel", "isThere", "shown"}``, the sandboxed variant of a specification. */
        readonly post: operations["post /kernelspecs/{name}"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Lists the sandboxes, and in ``kernels`` which kernel of this server runs in which. */
        readonly get: operations["get /sandboxes"];
        readonly put?: never;
        /** Lists the sandboxes, and in ``kernels`` which kernel of this server runs in which. */
        readonly post: operations["post /sandboxes"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Describes, renames or ends a sandbox. */
        readonly get: operations["get /sandboxes/{sandbox_id}"];
        readonly put?: never;
        readonly post?: never;
        /** Describes, renames or ends a sandbox. */
        readonly delete: operations["delete /sandboxes/{sandbox_id}"];
        readonly options?: never;
        readonly head?: never;
        /** Describes, renames or ends a sandbox. */
        readonly patch: operations["patch /sandboxes/{sandbox_id}"];
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/timeout": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /** Sets the end of a sandbox to ``timeout`` seconds from now. */
        readonly post: operations["post /sandboxes/{sandbox_id}/timeout"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/pause": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /** Pauses a running sandbox. */
        readonly post: operations["post /sandboxes/{sandbox_id}/pause"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/connect": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /** Resumes a paused sandbox, or extends the time of a running one. */
        readonly post: operations["post /sandboxes/{sandbox_id}/connect"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/snapshots": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /** Makes a snapshot of a running sandbox's files, from which others can be created. */
        readonly post: operations["post /sandboxes/{sandbox_id}/snapshots"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/fork": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /** Starts a sandbox with a copy of a running one's files; names it if the deployment can. */
        readonly post: operations["post /sandboxes/{sandbox_id}/fork"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/operations": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Lists the long operations on a sandbox; empty if the deployment has no such route. */
        readonly get: operations["get /sandboxes/{sandbox_id}/operations"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/operations/{operation_id}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        readonly post?: never;
        /** ``DELETE operations/{id}``: cancels it; the request that waits for it gets an error. */
        readonly delete: operations["delete /sandboxes/{sandbox_id}/operations/{operation_id}"];
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/metrics": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** The newest recorded reading of each of the ``sandboxes``, ids separated by commas. */
        readonly get: operations["get /metrics"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/templates": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Lists the templates and snapshots, snapshots last; with ``sizes=true`` measures them. */
        readonly get: operations["get /templates"];
        readonly put?: never;
        /** Lists the templates and snapshots, snapshots last; with ``sizes=true`` measures them. */
        readonly post: operations["post /templates"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/templates/{template_id}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Describes a template or snapshot with its builds, newest first; renames or removes it. */
        readonly get: operations["get /templates/{template_id}"];
        readonly put?: never;
        readonly post?: never;
        /** Describes a template or snapshot with its builds, newest first; renames or removes it. */
        readonly delete: operations["delete /templates/{template_id}"];
        readonly options?: never;
        readonly head?: never;
        /** Describes a template or snapshot with its builds, newest first; renames or removes it. */
        readonly patch: operations["patch /templates/{template_id}"];
        readonly trace?: never;
    };
    readonly "/templates/{template_id}/builds/{build_id}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** The status of a build and its log from ``offset`` on; ``DELETE`` cancels it. */
        readonly get: operations["get /templates/{template_id}/builds/{build_id}"];
        readonly put?: never;
        readonly post?: never;
        /** The status of a build and its log from ``offset`` on; ``DELETE`` cancels it. */
        readonly delete: operations["delete /templates/{template_id}/builds/{build_id}"];
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/templates/{template_id}/builds/{build_id}/logs": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Follows the log of a build by server-sent events. */
        readonly get: operations["get /templates/{template_id}/builds/{build_id}/logs"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/snapshots": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Lists the snapshots, newest first, as ``templates`` does. */
        readonly get: operations["get /snapshots"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/volumes": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Lists the volumes, with where they are mounted; ``POST`` makes one. */
        readonly get: operations["get /volumes"];
        readonly put?: never;
        /** Lists the volumes, with where they are mounted; ``POST`` makes one. */
        readonly post: operations["post /volumes"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/volumes/{volume_id}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        readonly post?: never;
        /** Removes a volume with its files. */
        readonly delete: operations["delete /volumes/{volume_id}"];
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/volumes/{volume_id}/dir": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Lists a directory of a volume, at most 5000 entries; ``POST`` makes one. */
        readonly get: operations["get /volumes/{volume_id}/dir"];
        readonly put?: never;
        /** Lists a directory of a volume, at most 5000 entries; ``POST`` makes one. */
        readonly post: operations["post /volumes/{volume_id}/dir"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/volumes/{volume_id}/files": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Reads a file of a volume; ``POST`` writes one, ``DELETE`` removes a file or directory. */
        readonly get: operations["get /volumes/{volume_id}/files"];
        readonly put?: never;
        /** Reads a file of a volume; ``POST`` writes one, ``DELETE`` removes a file or directory. */
        readonly post: operations["post /volumes/{volume_id}/files"];
        /** Reads a file of a volume; ``POST`` writes one, ``DELETE`` removes a file or directory. */
        readonly delete: operations["delete /volumes/{volume_id}/files"];
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/secrets": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Lists the secrets without their values; ``POST`` stores one. */
        readonly get: operations["get /secrets"];
        readonly put?: never;
        /** Lists the secrets without their values; ``POST`` stores one. */
        readonly post: operations["post /secrets"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/secrets/{name}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /** Gives a secret a new value, or removes it. */
        readonly post: operations["post /secrets/{name}"];
        /** Gives a secret a new value, or removes it. */
        readonly delete: operations["delete /secrets/{name}"];
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/logs": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** The newest ``limit`` entries of a sandbox's log (default and most: 1000), oldest first. */
        readonly get: operations["get /sandboxes/{sandbox_id}/logs"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/diff": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** What a sandbox changed since its template, or since the snapshot in ``since``. */
        readonly get: operations["get /sandboxes/{sandbox_id}/diff"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/diff/before": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** The content of ``path`` before the sandbox changed or deleted it, at most 1 MiB. */
        readonly get: operations["get /sandboxes/{sandbox_id}/diff/before"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/processes": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** The processes of a sandbox, without their variables, which may hold secrets. */
        readonly get: operations["get /sandboxes/{sandbox_id}/processes"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/processes/{pid}/signal": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /** Sends a signal to any process of a sandbox. */
        readonly post: operations["post /sandboxes/{sandbox_id}/processes/{pid}/signal"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/ports": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** The TCP ports on which programs of a sandbox listen, with where a browser finds each. */
        readonly get: operations["get /sandboxes/{sandbox_id}/ports"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/metrics": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** The live reading of one sandbox. */
        readonly get: operations["get /sandboxes/{sandbox_id}/metrics"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/metrics/history": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Answers the recorded readings of a sandbox, oldest first. */
        readonly get: operations["get /sandboxes/{sandbox_id}/metrics/history"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/Stat": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /** ``POST rpc/{service}/{method}``: the body and the answer are the runtime API's JSON. */
        readonly post: operations["post /sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/Stat"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/ListDir": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /** ``POST rpc/{service}/{method}``: the body and the answer are the runtime API's JSON. */
        readonly post: operations["post /sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/ListDir"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/MakeDir": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /** ``POST rpc/{service}/{method}``: the body and the answer are the runtime API's JSON. */
        readonly post: operations["post /sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/MakeDir"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/Move": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /** ``POST rpc/{service}/{method}``: the body and the answer are the runtime API's JSON. */
        readonly post: operations["post /sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/Move"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/Remove": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /** ``POST rpc/{service}/{method}``: the body and the answer are the runtime API's JSON. */
        readonly post: operations["post /sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/Remove"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/rpc/process.Process/List": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /** ``POST rpc/{service}/{method}``: the body and the answer are the runtime API's JSON. */
        readonly post: operations["post /sandboxes/{sandbox_id}/rpc/process.Process/List"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/rpc/process.Process/SendSignal": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /** ``POST rpc/{service}/{method}``: the body and the answer are the runtime API's JSON. */
        readonly post: operations["post /sandboxes/{sandbox_id}/rpc/process.Process/SendSignal"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/files": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** ``GET`` and ``POST`` of one file; ``path`` is that of the runtime API. */
        readonly get: operations["get /sandboxes/{sandbox_id}/files"];
        readonly put?: never;
        /** ``GET`` and ``POST`` of one file; ``path`` is that of the runtime API. */
        readonly post: operations["post /sandboxes/{sandbox_id}/files"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/files/compose": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly get?: never;
        readonly put?: never;
        /** Joins files of a sandbox to one, in order, and removes them. */
        readonly post: operations["post /sandboxes/{sandbox_id}/files/compose"];
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/listing": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Lists one page of a directory, sorted and filtered on the server. */
        readonly get: operations["get /sandboxes/{sandbox_id}/listing"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/archive": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Downloads a folder as a zip, streamed; ``format`` may be ``tar`` or ``tar.gz``. */
        readonly get: operations["get /sandboxes/{sandbox_id}/archive"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/watch": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Sends the text frame ``{"start": {}}`` when the watch has started, then one per event. */
        readonly get: operations["get /sandboxes/{sandbox_id}/watch"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/terminals": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Lists the running terminals that Jupyter servers started in a sandbox. */
        readonly get: operations["get /sandboxes/{sandbox_id}/terminals"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/terminals/{pid}": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Answer ``{"pid", "running", "name", "viewers", "link"}``. */
        readonly get: operations["get /sandboxes/{sandbox_id}/terminals/{pid}"];
        readonly put?: never;
        readonly post?: never;
        /** End the shell; the kernel then sends SIGHUP to the foreground processes. */
        readonly delete: operations["delete /sandboxes/{sandbox_id}/terminals/{pid}"];
        readonly options?: never;
        readonly head?: never;
        /** Name a terminal for all its viewers, until it ends. */
        readonly patch: operations["patch /sandboxes/{sandbox_id}/terminals/{pid}"];
        readonly trace?: never;
    };
    readonly "/sandboxes/{sandbox_id}/terminal": {
        readonly parameters: {
            readonly query?: never;
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        /** Connects one view to a terminal; several views may show the same terminal. */
        readonly get: operations["get /sandboxes/{sandbox_id}/terminal"];
        readonly put?: never;
        readonly post?: never;
        readonly delete?: never;
        readonly options?: never;
        readonly head?: never;
        readonly patch?: never;
        readonly trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * DefaultBody
         * @description The body of ``PATCH connections``.
         */
        readonly DefaultBody: {
            readonly default: string;
        };
        /**
         * CopyBody
         * @description The body of ``POST copies``; without a sandbox, paths are those of notebook files.
         *
         *     ``existing`` is ``fail``, ``replace``, ``skip`` or ``keep``.
         */
        readonly CopyBody: {
            readonly jobs: readonly components["schemas"]["CopyJob"][];
            /** @default null */
            readonly sourceSandboxID?: string | null;
            /** @default null */
            readonly targetSandboxID?: string | null;
            /**
             * @default fail
             * @enum {string}
             */
            readonly existing?: "fail" | "replace" | "skip" | "keep";
        };
        /**
         * CopyJob
         * @description One file or folder to copy; ``target`` includes its new name.
         */
        readonly CopyJob: {
            readonly source: string;
            readonly target: string;
        };
        /**
         * StartBody
         * @description The body of ``POST kernels``: ``path`` is that of the notebook inside the sandbox.
         */
        readonly StartBody: {
            readonly kernel: string;
            readonly sandbox: string;
            /** @default  */
            readonly path?: string;
        };
        /**
         * DrawingBody
         * @description The body of ``POST kernels/{id}/drawing``: ``mark`` is the page's; 0 seconds end it.
         */
        readonly DrawingBody: {
            readonly mark: string;
            readonly seconds: number;
        };
        /**
         * SizeBody
         * @description The body of ``POST kernels/{id}/sandbox``: what is left out stays; ``timeout`` in seconds.
         *
         *     Without ``keepFiles`` the sandbox starts from its template.
         */
        readonly SizeBody: {
            /** @default null */
            readonly memoryMB?: number | null;
            /** @default null */
            readonly timeout?: number | null;
            /** @default true */
            readonly keepFiles?: boolean;
        };
        /**
         * VariantBody
         * @description The body of ``POST kernelspecs/{name}``: the directories that the user lets sandboxes see.
         */
        readonly VariantBody: {
            /** @default [] */
            readonly shown?: readonly string[];
        };
        /**
         * CreateBody
         * @description The body of ``POST sandboxes``.
         *
         *     ``internet`` false keeps it off the internet; ``onTimeout`` is what happens at its end;
         *     ``volumes`` mounts volumes, each ``{"name", "path"}``.
         */
        readonly CreateBody: {
            /** @default null */
            readonly template?: string | null;
            /** @default null */
            readonly timeout?: number | null;
            /** @default {} */
            readonly metadata?: {
                readonly [key: string]: string;
            };
            /** @default {} */
            readonly envs?: {
                readonly [key: string]: string;
            };
            /** @default null */
            readonly name?: string | null;
            /** @default null */
            readonly internet?: boolean | null;
            /**
             * @default kill
             * @enum {unknown}
             */
            readonly onTimeout?: "kill" | "pause";
            /** @default [] */
            readonly volumes?: readonly components["schemas"]["VolumeMount"][];
        };
        /** VolumeMount */
        readonly VolumeMount: {
            readonly name: string;
            readonly path: string;
        };
        /**
         * NameBody
         * @description The body of ``PATCH sandboxes/{id}``; an empty name removes the name.
         */
        readonly NameBody: {
            readonly name: string;
        };
        /** TimeoutBody */
        readonly TimeoutBody: {
            readonly timeout: number;
        };
        /** ConnectBody */
        readonly ConnectBody: {
            /** @default null */
            readonly timeout?: number | null;
        };
        /** SnapshotBody */
        readonly SnapshotBody: {
            /** @default null */
            readonly name?: string | null;
        };
        /**
         * ForkBody
         * @description The body of ``POST sandboxes/{id}/fork``.
         */
        readonly ForkBody: {
            /** @default null */
            readonly timeout?: number | null;
            /** @default null */
            readonly name?: string | null;
        };
        /**
         * BuildBody
         * @description The body of ``POST templates``; ``template`` replaces the image of FROM.
         */
        readonly BuildBody: {
            readonly name: string;
            readonly dockerfile: string;
            /** @default null */
            readonly template?: string | null;
            /** @default {} */
            readonly buildArgs?: {
                readonly [key: string]: string;
            };
            /** @default null */
            readonly cpuCount?: number | null;
            /** @default null */
            readonly memoryMB?: number | null;
            /** @default null */
            readonly readyCmd?: string | null;
            /** @default false */
            readonly force?: boolean;
        };
        /**
         * TemplateNameBody
         * @description The body of ``PATCH templates/{id}``; an empty name removes the name.
         */
        readonly TemplateNameBody: {
            readonly name: string;
        };
        /**
         * VolumeBody
         * @description The body of ``POST volumes``.
         */
        readonly VolumeBody: {
            readonly name: string;
        };
        /**
         * SecretBody
         * @description The body of ``POST secrets``.
         */
        readonly SecretBody: {
            readonly name: string;
            readonly value: string;
        };
        /**
         * SecretValueBody
         * @description The body of ``POST secrets/{name}``.
         */
        readonly SecretValueBody: {
            readonly value: string;
        };
        /**
         * SignalBody
         * @description The body of ``POST sandboxes/{id}/processes/{pid}/signal``.
         */
        readonly SignalBody: {
            /**
             * @default TERM
             * @enum {unknown}
             */
            readonly signal?: "CONT" | "HUP" | "INT" | "KILL" | "QUIT" | "STOP" | "TERM" | "USR1" | "USR2";
        };
        /** PathRequest */
        readonly PathRequest: {
            /** @default  */
            readonly path?: string;
        };
        /** ListDirRequest */
        readonly ListDirRequest: {
            /** @default  */
            readonly path?: string;
            /** @default 0 */
            readonly depth?: number;
        };
        /** MoveRequest */
        readonly MoveRequest: {
            /** @default  */
            readonly source?: string;
            /** @default  */
            readonly destination?: string;
        };
        /**
         * Empty
         * @description The message without fields.
         */
        readonly Empty: Record<string, never>;
        /** SendSignalRequest */
        readonly SendSignalRequest: {
            /** @default {} */
            readonly process?: components["schemas"]["ProcessSelector"];
            /** @default 0 */
            readonly signal?: string | number;
        };
        /** ProcessSelector */
        readonly ProcessSelector: {
            /** @default null */
            readonly pid?: number | null;
            /** @default null */
            readonly tag?: string | null;
        };
        /**
         * ComposeBody
         * @description The body of ``POST sandboxes/{id}/files/compose``; ``size`` is that of the whole file.
         */
        readonly ComposeBody: {
            readonly sources: readonly string[];
            readonly destination: string;
            /** @default null */
            readonly size?: number | null;
        };
        /**
         * TerminalNameBody
         * @description The body of ``PATCH terminals/{pid}``; an empty name removes the name.
         */
        readonly TerminalNameBody: {
            readonly name: string;
        };
        /**
         * Failure
         * @description An error: its Connect code, and a sentence for people.
         */
        readonly Failure: {
            /** @enum {string} */
            readonly code: "aborted" | "already_exists" | "canceled" | "data_loss" | "deadline_exceeded" | "failed_precondition" | "internal" | "invalid_argument" | "not_found" | "out_of_range" | "permission_denied" | "resource_exhausted" | "unauthenticated" | "unavailable" | "unimplemented" | "unknown";
            readonly message: string;
        };
        /**
         * ServerInfo
         * @description The extension, the connection in use with its engine, and the names of all connections.
         */
        readonly ServerInfo: {
            readonly connection: components["schemas"]["ConnectionInfo"];
            readonly connections: readonly string[];
            readonly engine: components["schemas"]["EngineState"];
            readonly host: string | null;
            readonly isolation: components["schemas"]["Isolation"] | null;
            readonly ports: components["schemas"]["PortMode"];
            /** @enum {unknown} */
            readonly url_kind: "bundled" | "configured";
            readonly version: string;
        };
        /**
         * ConnectionInfo
         * @description A deployment under the name that the configuration gives it.
         *
         *     ``message`` says what is wrong, if something is, and ``remedy`` what the user can do about it;
         *     ``missing`` has what the deployment cannot do, with the reasons.
         */
        readonly ConnectionInfo: {
            readonly engineVersion: string | null;
            readonly host: string | null;
            /** @enum {unknown} */
            readonly kind: "local" | "remote";
            readonly message: string | null;
            readonly missing: {
                readonly [key: string]: string;
            };
            readonly name: string;
            readonly remedy: string | null;
            /** @enum {unknown} */
            readonly state: "incompatible" | "ready" | "starting" | "stopped" | "unauthorized" | "unreachable";
        };
        /**
         * EngineState
         * @description The bundled engine, ``remote`` for another deployment; ``message`` if it has failed.
         */
        readonly EngineState: {
            readonly message?: string;
            /** @enum {unknown} */
            readonly state: "failed" | "remote" | "running" | "starting" | "stopped";
        };
        /**
         * Isolation
         * @description How an engine isolates sandboxes, as it reports it; newer engines may say more.
         *
         *     ``tier`` is ``namespaces``, ``landlock`` or ``none``, ``best_tier`` the strongest that the
         *     machine supports. ``users`` is ``root-mapped``, ``subordinate`` or ``virtual``; ``ids`` is
         *     ``own`` if each sandbox has host ids of its own, else ``shared``. ``served_by`` says who serves
         *     clients: ``separate`` (a user that root became), ``root`` or ``user``. ``limits`` says for each
         *     resource what holds sandboxes to it, ``limit_words`` whether it is limited, watched or not
         *     limited, ``amounts`` how much each limit allows. ``network`` is ``proxy``, ``full``, ``none`` or
         *     ``host``; with ``loopback``, sandboxes of the tier ``landlock`` have ports of their own.
         */
        readonly Isolation: {
            readonly amounts?: {
                readonly [key: string]: number;
            };
            readonly best_tier?: string;
            readonly freezer?: string;
            readonly ids?: string;
            readonly limit_words?: {
                readonly [key: string]: string;
            };
            readonly limits?: {
                readonly [key: string]: string;
            };
            readonly loopback?: boolean;
            readonly missing?: readonly components["schemas"]["MissingPart"][];
            readonly network?: string | null;
            readonly reflink?: boolean;
            readonly served_by?: string;
            readonly tier: string;
            readonly users?: string;
        };
        /**
         * MissingPart
         * @description A missing part that would make the isolation stronger, and the command that adds it.
         */
        readonly MissingPart: {
            readonly page?: string;
            readonly remedy: string;
            readonly what: string;
        };
        /**
         * PortMode
         * @description Where pages of ports are: below a path, or at host names of the pattern ``hosts``.
         */
        readonly PortMode: {
            readonly hosts?: string;
            /** @enum {unknown} */
            readonly mode: "host" | "path";
        };
        /**
         * Page
         * @description A page of the documentation: its name, and its first heading.
         */
        readonly Page: {
            readonly name: string;
            readonly title: string;
        };
        /**
         * ConnectionList
         * @description Every connection, and the name of the one in use.
         */
        readonly ConnectionList: {
            readonly connections: readonly components["schemas"]["ConnectionInfo"][];
            readonly default: string;
        };
        /**
         * ServerState
         * @description Everything that a page shows; ``problem`` if the list could not be read.
         */
        readonly ServerState: {
            readonly info: components["schemas"]["ServerInfo"];
            readonly kernels: readonly components["schemas"]["KernelPlace"][];
            readonly problem?: components["schemas"]["Failure"];
            readonly sandboxes: readonly components["schemas"]["ListedSandbox"][];
        };
        /**
         * KernelPlace
         * @description A kernel of this server, and the sandbox that it runs in.
         */
        readonly KernelPlace: {
            readonly kernelID: string;
            readonly sandboxID: string;
        };
        /** ListedSandbox */
        readonly ListedSandbox: {
            readonly templateID: string;
            readonly sandboxID: string;
            readonly clientID: string;
            readonly envdVersion: string;
            readonly startedAt: string;
            readonly endAt: string;
            readonly cpuCount: number;
            readonly memoryMB: number;
            readonly diskSizeMB: number;
            /** @enum {unknown} */
            readonly state: "paused" | "running";
            readonly alias?: string;
            readonly metadata?: {
                readonly [key: string]: string;
            };
            readonly volumeMounts?: readonly components["schemas"]["VolumeMount"][];
            /** @enum {unknown} */
            readonly pauseMode?: "filesystem" | "full";
            readonly owner?: string;
        };
        /**
         * ShownPort
         * @description A port on which a program listens; ``url`` is a path of this server.
         */
        readonly ShownPort: {
            readonly port: number;
            readonly address: string;
            readonly program: string | null;
            readonly pid: number | null;
            readonly url: string;
        };
        /**
         * ChangedItems
         * @description What to read again: ids, and names of secrets.
         */
        readonly ChangedItems: {
            readonly secrets?: readonly string[];
            readonly snapshots?: readonly string[];
            readonly templates?: readonly string[];
            readonly volumes?: readonly string[];
        };
        /**
         * CopyProgress
         * @description How far a copy is.
         */
        readonly CopyProgress: {
            readonly allBytes: number;
            readonly allFiles: number;
            readonly bytes: number;
            readonly files: number;
        };
        /**
         * CopyEnd
         * @description What a copy has done; ``failureCount`` counts also failures that are not named.
         */
        readonly CopyEnd: {
            readonly copied: number;
            readonly failureCount: number;
            readonly failures: readonly components["schemas"]["CopyFailure"][];
            readonly links: number;
            readonly skipped: readonly string[];
        };
        /**
         * CopyFailure
         * @description What was not copied, and why.
         */
        readonly CopyFailure: {
            readonly message: string;
            readonly name: string;
        };
        /**
         * KernelVariant
         * @description How kernels of a specification run in sandboxes: ``kernel`` is the one with which they do.
         *
         *     ``isThere``: whether it is installed; ``shown``: directories of the server's machine that their
         *     sandboxes see read-only.
         */
        readonly KernelVariant: {
            readonly isThere: boolean;
            readonly kernel: string;
            readonly shown: readonly string[];
        };
        /** SnapshotInfo */
        readonly SnapshotInfo: {
            readonly snapshotID: string;
            readonly names: readonly string[];
        };
        /**
         * SandboxOperation
         * @description A long operation on a sandbox.
         */
        readonly SandboxOperation: {
            readonly operationID: string;
            /** @enum {unknown} */
            readonly kind: "fork" | "pause" | "snapshot";
            /** @enum {unknown} */
            readonly phase: "copying" | "finishing" | "starting" | "storing";
            readonly startedAt: string;
            readonly doneBytes: number;
            readonly totalBytes: number | null;
            readonly cancellable: boolean;
        };
        /** SandboxMetric */
        readonly SandboxMetric: {
            readonly timestamp: string;
            readonly timestampUnix: number;
            readonly cpuCount: number;
            readonly cpuUsedPct: number;
            readonly memUsed: number;
            readonly memTotal: number;
            readonly memCache: number;
            readonly diskUsed: number;
            readonly diskTotal: number;
        };
        /**
         * StoredTemplate
         * @description A template or a snapshot, and what depends on it.
         */
        readonly StoredTemplate: {
            readonly templateID: string;
            readonly names: readonly string[];
            /** @enum {unknown} */
            readonly kind: "snapshot" | "template";
            readonly isOwn?: boolean;
            readonly createdAt?: string;
            readonly updatedAt?: string;
            readonly lastSpawnedAt?: string | null;
            readonly spawnCount?: number;
            readonly buildID?: string;
            readonly buildCount?: number;
            readonly tags?: readonly string[];
            readonly cpuCount?: number;
            readonly memoryMB?: number;
            readonly diskSizeMB?: number;
            readonly sourceSandboxID?: string | null;
            readonly sandboxes?: readonly string[];
            readonly ownBytes?: number | null;
            readonly sharedBytes?: number | null;
            readonly buildStatus?: ("building" | "error" | "ready" | "waiting") | null;
            readonly isStock?: boolean;
        };
        /**
         * BegunBuild
         * @description A build that has begun; ``leftOut`` names instructions that have no effect here.
         */
        readonly BegunBuild: {
            readonly buildID: string;
            readonly leftOut: readonly string[];
            readonly names: readonly string[];
            readonly templateID: string;
        };
        /** TemplateWithBuilds */
        readonly TemplateWithBuilds: {
            readonly templateID: string;
            readonly buildID: string;
            readonly cpuCount: number;
            readonly memoryMB: number;
            readonly diskSizeMB: number;
            readonly public: boolean;
            readonly aliases: readonly string[];
            readonly names: readonly string[];
            readonly createdAt: string;
            readonly updatedAt: string;
            readonly createdBy: components["schemas"]["Creator"] | null;
            readonly lastSpawnedAt: string | null;
            readonly spawnCount: number;
            readonly buildCount: number;
            readonly envdVersion: string;
            /** @enum {unknown} */
            readonly buildStatus: "building" | "error" | "ready" | "waiting";
            readonly isDefault: boolean;
            readonly builds: readonly components["schemas"]["TemplateBuild"][];
        };
        /** Creator */
        readonly Creator: {
            readonly id: string;
            readonly email: string | null;
        };
        /**
         * TemplateBuild
         * @description One build in the answer about a template (T15).
         */
        readonly TemplateBuild: {
            readonly buildID: string;
            /** @enum {unknown} */
            readonly status: "building" | "error" | "ready" | "waiting";
            readonly createdAt: string;
            readonly updatedAt: string;
            readonly cpuCount: number;
            readonly memoryMB: number;
            readonly finishedAt?: string;
            readonly diskSizeMB?: number;
            readonly envdVersion?: string;
        };
        /**
         * TemplateDetail
         * @description A template or a snapshot, and what depends on it.
         */
        readonly TemplateDetail: {
            readonly templateID: string;
            readonly names: readonly string[];
            /** @enum {unknown} */
            readonly kind: "snapshot" | "stock" | "template";
            readonly isOwn: boolean;
            readonly createdAt: string;
            readonly updatedAt: string;
            readonly lastSpawnedAt: string | null;
            readonly spawnCount: number;
            readonly buildID: string;
            /** @enum {unknown} */
            readonly buildStatus: "building" | "error" | "ready" | "waiting";
            readonly buildCount: number;
            readonly tags: readonly string[];
            readonly cpuCount: number;
            readonly memoryMB: number;
            readonly diskSizeMB: number;
            readonly sourceSandboxID: string | null;
            readonly sandboxes: readonly string[];
            readonly ownBytes: number | null;
            readonly sharedBytes: number | null;
        };
        /**
         * BuildProgress
         * @description What a build has done since the last answer; ``next`` is the offset of the next request.
         */
        readonly BuildProgress: {
            readonly logs: readonly components["schemas"]["BuildLogEntry"][];
            readonly next: number;
            readonly reason: components["schemas"]["BuildFailure"] | null;
            /** @enum {unknown} */
            readonly status: "building" | "error" | "ready" | "waiting";
        };
        /** BuildLogEntry */
        readonly BuildLogEntry: {
            readonly timestamp: string;
            readonly message: string;
            /** @enum {unknown} */
            readonly level: "debug" | "error" | "info" | "warn";
            readonly step?: string;
        };
        /**
         * BuildFailure
         * @description Why a build failed, and in which step.
         */
        readonly BuildFailure: {
            readonly message: string;
            readonly step: string | null;
        };
        /**
         * StoredVolume
         * @description A volume, and where it is mounted.
         */
        readonly StoredVolume: {
            readonly volumeID: string;
            readonly name: string;
            readonly createdAt?: string;
            readonly sandboxes?: readonly string[];
            readonly ownBytes?: number | null;
        };
        /** Volume */
        readonly Volume: {
            readonly volumeID: string;
            readonly name: string;
        };
        /**
         * VolumeEntry
         * @description ``VolumeEntryStat``; sizes in bytes, ``mode`` as a number.
         */
        readonly VolumeEntry: {
            readonly name: string;
            /** @enum {unknown} */
            readonly type: "directory" | "file" | "symlink" | "unknown";
            readonly path: string;
            readonly size: number;
            readonly mode: number;
            readonly uid: number;
            readonly gid: number;
            readonly atime: string;
            readonly mtime: string;
            readonly ctime: string;
            readonly target?: string;
        };
        /** Secret */
        readonly Secret: {
            readonly secretID: string;
            readonly name: string;
            readonly currentVersion: number;
            readonly metadata: Record<string, never>;
            readonly createdAt: string;
            readonly updatedAt: string;
        };
        /** SandboxLogEntry */
        readonly SandboxLogEntry: {
            readonly timestamp: string;
            readonly message: string;
            /** @enum {unknown} */
            readonly level: "debug" | "error" | "info" | "warn";
            readonly fields: {
                readonly [key: string]: string;
            };
        };
        /**
         * Diff
         * @description The changes of a sandbox; ``truncated`` when not all are listed.
         */
        readonly Diff: {
            readonly changes: readonly components["schemas"]["Change"][];
            readonly truncated: boolean;
        };
        /**
         * Change
         * @description One path that differs; ``size`` in bytes, of files.
         *
         *     ``changed_us`` is when its content or attributes last changed, in microseconds of Unix time; 0
         *     for what is deleted.
         */
        readonly Change: {
            readonly path: string;
            /** @enum {unknown} */
            readonly change: "added" | "changed" | "deleted";
            /** @enum {unknown} */
            readonly type: "directory" | "file" | "other" | "symlink";
            readonly size: number;
            readonly changed_us: number;
        };
        /**
         * ShownProcess
         * @description One process of a sandbox as the kernel shows it; its names are what the program says.
         */
        readonly ShownProcess: {
            readonly pid: number;
            readonly started: boolean;
            readonly parent?: number | null;
            readonly name?: string;
            readonly args?: readonly string[];
            readonly state?: string;
            readonly cpuSeconds?: number;
            readonly cpuPct?: number;
            readonly memoryBytes?: number;
            readonly threads?: number;
            readonly ageSeconds?: number;
            readonly tag?: string | null;
            readonly cmd?: string;
            readonly cwd?: string | null;
        };
        /**
         * PortList
         * @description The ports of a sandbox, and where their pages are.
         */
        readonly PortList: {
            readonly hosts?: string;
            /** @enum {unknown} */
            readonly mode: "host" | "path";
            readonly ports: readonly components["schemas"]["ShownPort"][];
        };
        /**
         * Reading
         * @description One set of metrics, as ``GET /metrics`` answers it (interface 4.3); sizes in bytes.
         *
         *     ``cpu_ns``, an addition, is the processor time so far; 0 where it is not known.
         */
        readonly Reading: {
            readonly ts: number;
            readonly cpu_count: number;
            readonly cpu_used_pct: number;
            readonly mem_total_mib: number;
            readonly mem_used_mib: number;
            readonly mem_total: number;
            readonly mem_used: number;
            readonly mem_cache: number;
            readonly disk_used: number;
            readonly disk_total: number;
            readonly cpu_ns: number;
        };
        /** EntryResponse */
        readonly EntryResponse: {
            readonly entry: components["schemas"]["EntryInfo"];
        };
        /**
         * EntryInfo
         * @description One file, directory or link (interface 3.4, "EntryInfo values").
         */
        readonly EntryInfo: {
            readonly name: string;
            readonly type: string;
            readonly path: string;
            readonly size?: number;
            readonly mode?: number;
            readonly permissions?: string;
            readonly owner?: string;
            readonly group?: string;
            readonly modifiedTime?: string;
            readonly symlinkTarget?: string;
            readonly metadata?: {
                readonly [key: string]: string;
            };
            readonly isSymlink?: boolean;
        };
        /** ListDirResponse */
        readonly ListDirResponse: {
            readonly entries?: readonly components["schemas"]["EntryInfo"][];
        };
        /** ListProcessesResponse */
        readonly ListProcessesResponse: {
            readonly processes?: readonly components["schemas"]["ProcessInfo"][];
        };
        /** ProcessInfo */
        readonly ProcessInfo: {
            readonly config: components["schemas"]["ProcessConfig"];
            readonly pid: number;
            readonly tag?: string;
        };
        /** ProcessConfig */
        readonly ProcessConfig: {
            readonly cmd?: string;
            readonly args?: readonly string[];
            readonly envs?: {
                readonly [key: string]: string;
            };
            readonly cwd?: string;
        };
        /**
         * WrittenFile
         * @description One element of the answer of ``POST /files`` (interface 4.5) and ``/files/compose`` (4.6).
         */
        readonly WrittenFile: {
            readonly path: string;
            readonly name: string;
            readonly type: string;
            readonly metadata?: {
                readonly [key: string]: string;
            };
        };
        /**
         * ListedTerminal
         * @description A live terminal; ``link`` opens it for other users who may use the sandbox.
         */
        readonly ListedTerminal: {
            readonly cmd: string;
            readonly link: string;
            readonly name: string;
            readonly pid: number;
            readonly tag: string | null;
            readonly viewers: readonly components["schemas"]["Viewer"][];
        };
        /**
         * Viewer
         * @description Who looks at a terminal, by the name that others are shown.
         */
        readonly Viewer: {
            readonly readOnly: boolean;
            readonly user: string;
        };
        /**
         * TerminalState
         * @description A terminal; ``running`` is its foreground program, ``""`` at the prompt, else ``null``.
         */
        readonly TerminalState: {
            readonly link: string;
            readonly name: string;
            readonly pid: number;
            readonly running: string | null;
            readonly viewers: readonly components["schemas"]["Viewer"][];
        };
        /**
         * NamedTerminal
         * @description A terminal after it was named.
         */
        readonly NamedTerminal: {
            readonly name: string;
            readonly pid: number;
            readonly viewers: readonly components["schemas"]["Viewer"][];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type DefaultBody = components['schemas']['DefaultBody'];
export type CopyBody = components['schemas']['CopyBody'];
export type CopyJob = components['schemas']['CopyJob'];
export type StartBody = components['schemas']['StartBody'];
export type DrawingBody = components['schemas']['DrawingBody'];
export type SizeBody = components['schemas']['SizeBody'];
export type VariantBody = components['schemas']['VariantBody'];
export type CreateBody = components['schemas']['CreateBody'];
export type VolumeMount = components['schemas']['VolumeMount'];
export type NameBody = components['schemas']['NameBody'];
export type TimeoutBody = components['schemas']['TimeoutBody'];
export type ConnectBody = components['schemas']['ConnectBody'];
export type SnapshotBody = components['schemas']['SnapshotBody'];
export type ForkBody = components['schemas']['ForkBody'];
export type BuildBody = components['schemas']['BuildBody'];
export type TemplateNameBody = components['schemas']['TemplateNameBody'];
export type VolumeBody = components['schemas']['VolumeBody'];
export type SecretBody = components['schemas']['SecretBody'];
export type SecretValueBody = components['schemas']['SecretValueBody'];
export type SignalBody = components['schemas']['SignalBody'];
export type PathRequest = components['schemas']['PathRequest'];
export type ListDirRequest = components['schemas']['ListDirRequest'];
export type MoveRequest = components['schemas']['MoveRequest'];
export type Empty = components['schemas']['Empty'];
export type SendSignalRequest = components['schemas']['SendSignalRequest'];
export type ProcessSelector = components['schemas']['ProcessSelector'];
export type ComposeBody = components['schemas']['ComposeBody'];
export type TerminalNameBody = components['schemas']['TerminalNameBody'];
export type Failure = components['schemas']['Failure'];
export type ServerInfo = components['schemas']['ServerInfo'];
export type ConnectionInfo = components['schemas']['ConnectionInfo'];
export type EngineState = components['schemas']['EngineState'];
export type Isolation = components['schemas']['Isolation'];
export type MissingPart = components['schemas']['MissingPart'];
export type PortMode = components['schemas']['PortMode'];
export type Page = components['schemas']['Page'];
export type ConnectionList = components['schemas']['ConnectionList'];
export type ServerState = components['schemas']['ServerState'];
export type KernelPlace = components['schemas']['KernelPlace'];
export type ListedSandbox = components['schemas']['ListedSandbox'];
export type ShownPort = components['schemas']['ShownPort'];
export type ChangedItems = components['schemas']['ChangedItems'];
export type CopyProgress = components['schemas']['CopyProgress'];
export type CopyEnd = components['schemas']['CopyEnd'];
export type CopyFailure = components['schemas']['CopyFailure'];
export type KernelVariant = components['schemas']['KernelVariant'];
export type SnapshotInfo = components['schemas']['SnapshotInfo'];
export type SandboxOperation = components['schemas']['SandboxOperation'];
export type SandboxMetric = components['schemas']['SandboxMetric'];
export type StoredTemplate = components['schemas']['StoredTemplate'];
export type BegunBuild = components['schemas']['BegunBuild'];
export type TemplateWithBuilds = components['schemas']['TemplateWithBuilds'];
export type Creator = components['schemas']['Creator'];
export type TemplateBuild = components['schemas']['TemplateBuild'];
export type TemplateDetail = components['schemas']['TemplateDetail'];
export type BuildProgress = components['schemas']['BuildProgress'];
export type BuildLogEntry = components['schemas']['BuildLogEntry'];
export type BuildFailure = components['schemas']['BuildFailure'];
export type StoredVolume = components['schemas']['StoredVolume'];
export type Volume = components['schemas']['Volume'];
export type VolumeEntry = components['schemas']['VolumeEntry'];
export type Secret = components['schemas']['Secret'];
export type SandboxLogEntry = components['schemas']['SandboxLogEntry'];
export type Diff = components['schemas']['Diff'];
export type Change = components['schemas']['Change'];
export type ShownProcess = components['schemas']['ShownProcess'];
export type PortList = components['schemas']['PortList'];
export type Reading = components['schemas']['Reading'];
export type EntryResponse = components['schemas']['EntryResponse'];
export type EntryInfo = components['schemas']['EntryInfo'];
export type ListDirResponse = components['schemas']['ListDirResponse'];
export type ListProcessesResponse = components['schemas']['ListProcessesResponse'];
export type ProcessInfo = components['schemas']['ProcessInfo'];
export type ProcessConfig = components['schemas']['ProcessConfig'];
export type WrittenFile = components['schemas']['WrittenFile'];
export type ListedTerminal = components['schemas']['ListedTerminal'];
export type Viewer = components['schemas']['Viewer'];
export type TerminalState = components['schemas']['TerminalState'];
export type NamedTerminal = components['schemas']['NamedTerminal'];
export type $defs = Record<string, never>;
export interface operations {
    readonly "get /info": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["ServerInfo"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /openapi.json": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": Record<string, never>;
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /help": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": {
                        readonly pages: readonly components["schemas"]["Page"][];
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /help/{name}": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly name: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": {
                        readonly name: string;
                        readonly text: string;
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /help/pictures/{name}": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly name: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "image/*": unknown;
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /connections": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["ConnectionList"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "patch /connections": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": components["schemas"]["DefaultBody"];
            };
        };
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["ConnectionList"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /events": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: {
                /** @description The id of the last event that the client has got. */
                readonly "Last-Event-ID"?: string;
            };
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Server-sent events: the data of each, by the event's name */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "text/event-stream": {
                        readonly state: components["schemas"]["ServerState"];
                        readonly sandbox: components["schemas"]["ListedSandbox"];
                        readonly ended: {
                            readonly sandboxID: string;
                        };
                        readonly kernels: readonly components["schemas"]["KernelPlace"][];
                        readonly info: components["schemas"]["ServerInfo"];
                        readonly ports: {
                            readonly sandboxID: string;
                            readonly ports: readonly components["schemas"]["ShownPort"][];
                        };
                        readonly changed: components["schemas"]["ChangedItems"];
                        readonly problem: components["schemas"]["Failure"] | null;
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /copies": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": components["schemas"]["CopyBody"];
            };
        };
        readonly responses: {
            /** @description Server-sent events: the data of each, by the event's name */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "text/event-stream": {
                        readonly progress: components["schemas"]["CopyProgress"];
                        readonly end: components["schemas"]["CopyEnd"];
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /kernels": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": {
                        readonly kernels: readonly components["schemas"]["KernelPlace"][];
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /kernels": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": components["schemas"]["StartBody"];
            };
        };
        readonly responses: {
            /** @description Created */
            readonly 201: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": {
                        readonly kernelID: string;
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /kernels/{kernel_id}/drawing": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly kernel_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": components["schemas"]["DrawingBody"];
            };
        };
        readonly responses: {
            /** @description Done */
            readonly 204: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /kernels/{kernel_id}/sandbox": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly kernel_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": components["schemas"]["SizeBody"];
            };
        };
        readonly responses: {
            /** @description Created */
            readonly 201: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": {
                        readonly sandboxID: string;
                        readonly filesKept: boolean;
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /kernelspecs/{name}": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly name: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["KernelVariant"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /kernelspecs/{name}": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly name: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": components["schemas"]["VariantBody"];
            };
        };
        readonly responses: {
            /** @description Created */
            readonly 201: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["KernelVariant"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /sandboxes": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": {
                        readonly sandboxes: readonly components["schemas"]["ListedSandbox"][];
                        readonly kernels: readonly components["schemas"]["KernelPlace"][];
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /sandboxes": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": components["schemas"]["CreateBody"];
            };
        };
        readonly responses: {
            /** @description Created */
            readonly 201: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["ListedSandbox"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /sandboxes/{sandbox_id}": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["ListedSandbox"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "delete /sandboxes/{sandbox_id}": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Done */
            readonly 204: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "patch /sandboxes/{sandbox_id}": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": components["schemas"]["NameBody"];
            };
        };
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["ListedSandbox"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /sandboxes/{sandbox_id}/timeout": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": components["schemas"]["TimeoutBody"];
            };
        };
        readonly responses: {
            /** @description Done */
            readonly 204: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /sandboxes/{sandbox_id}/pause": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Done */
            readonly 204: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /sandboxes/{sandbox_id}/connect": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": components["schemas"]["ConnectBody"];
            };
        };
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["ListedSandbox"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /sandboxes/{sandbox_id}/snapshots": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": components["schemas"]["SnapshotBody"];
            };
        };
        readonly responses: {
            /** @description Created */
            readonly 201: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["SnapshotInfo"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /sandboxes/{sandbox_id}/fork": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": components["schemas"]["ForkBody"];
            };
        };
        readonly responses: {
            /** @description Created */
            readonly 201: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["ListedSandbox"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /sandboxes/{sandbox_id}/operations": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": {
                        readonly operations: readonly components["schemas"]["SandboxOperation"][];
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "delete /sandboxes/{sandbox_id}/operations/{operation_id}": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
                readonly operation_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Done */
            readonly 204: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /metrics": {
        readonly parameters: {
            readonly query?: {
                /** @description Their ids, separated by commas. */
                readonly sandboxes?: string;
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": {
                        readonly readings: {
                            readonly [key: string]: components["schemas"]["SandboxMetric"];
                        };
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /templates": {
        readonly parameters: {
            readonly query?: {
                /** @description Whether to measure their disk use. */
                readonly sizes?: "false" | "true";
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": {
                        readonly templates: readonly components["schemas"]["StoredTemplate"][];
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /templates": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": components["schemas"]["BuildBody"];
            };
        };
        readonly responses: {
            /** @description Begun */
            readonly 202: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["BegunBuild"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /templates/{template_id}": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly template_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["TemplateWithBuilds"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "delete /templates/{template_id}": {
        readonly parameters: {
            readonly query?: {
                /** @description Whether to end its sandboxes before. */
                readonly dependants?: "false" | "true";
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly template_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Done */
            readonly 204: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "patch /templates/{template_id}": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly template_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": components["schemas"]["TemplateNameBody"];
            };
        };
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["TemplateDetail"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /templates/{template_id}/builds/{build_id}": {
        readonly parameters: {
            readonly query?: {
                /** @description The number of entries of the log that are known already. */
                readonly offset?: number;
                /** @description Seconds to wait for news, at most 30. */
                readonly wait?: number;
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly template_id: string;
                readonly build_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["BuildProgress"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "delete /templates/{template_id}/builds/{build_id}": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly template_id: string;
                readonly build_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Done */
            readonly 204: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /templates/{template_id}/builds/{build_id}/logs": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: {
                /** @description The id of the last event that the client has got. */
                readonly "Last-Event-ID"?: string;
            };
            readonly path: {
                readonly template_id: string;
                readonly build_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Server-sent events: the data of each, by the event's name */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "text/event-stream": {
                        readonly log: components["schemas"]["BuildLogEntry"];
                        readonly end: {
                            /** @enum {unknown} */
                            readonly status: "building" | "error" | "ready" | "waiting";
                            readonly reason: components["schemas"]["BuildFailure"] | null;
                        };
                        readonly problem: components["schemas"]["Failure"];
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /snapshots": {
        readonly parameters: {
            readonly query?: {
                /** @description Whether to measure their disk use. */
                readonly sizes?: "false" | "true";
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": {
                        readonly snapshots: readonly components["schemas"]["StoredTemplate"][];
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /volumes": {
        readonly parameters: {
            readonly query?: {
                /** @description Whether to measure them. */
                readonly sizes?: "false" | "true";
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": {
                        readonly volumes: readonly components["schemas"]["StoredVolume"][];
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /volumes": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": components["schemas"]["VolumeBody"];
            };
        };
        readonly responses: {
            /** @description Created */
            readonly 201: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Volume"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "delete /volumes/{volume_id}": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly volume_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Done */
            readonly 204: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /volumes/{volume_id}/dir": {
        readonly parameters: {
            readonly query?: {
                /** @description An absolute path, or one below the home directory. */
                readonly path?: string;
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly volume_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": {
                        readonly entries: readonly components["schemas"]["VolumeEntry"][];
                        readonly total: number;
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /volumes/{volume_id}/dir": {
        readonly parameters: {
            readonly query?: {
                /** @description An absolute path, or one below the home directory. */
                readonly path?: string;
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly volume_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Created */
            readonly 201: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["VolumeEntry"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /volumes/{volume_id}/files": {
        readonly parameters: {
            readonly query: {
                /** @description An absolute path, or one below the home directory. */
                readonly path: string;
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly volume_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/octet-stream": unknown;
                };
            };
            /** @description A part of the file */
            readonly 206: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/octet-stream": unknown;
                };
            };
            /** @description Unchanged */
            readonly 304: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /volumes/{volume_id}/files": {
        readonly parameters: {
            readonly query: {
                /** @description An absolute path, or one below the home directory. */
                readonly path: string;
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly volume_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/octet-stream": unknown;
            };
        };
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["VolumeEntry"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "delete /volumes/{volume_id}/files": {
        readonly parameters: {
            readonly query: {
                /** @description An absolute path, or one below the home directory. */
                readonly path: string;
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly volume_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Done */
            readonly 204: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /secrets": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": {
                        readonly secrets: readonly components["schemas"]["Secret"][];
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /secrets": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path?: never;
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": components["schemas"]["SecretBody"];
            };
        };
        readonly responses: {
            /** @description Created */
            readonly 201: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Secret"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /secrets/{name}": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly name: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": components["schemas"]["SecretValueBody"];
            };
        };
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Secret"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "delete /secrets/{name}": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly name: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Done */
            readonly 204: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /sandboxes/{sandbox_id}/logs": {
        readonly parameters: {
            readonly query?: {
                /** @description The most entries to give. */
                readonly limit?: number;
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": {
                        readonly logs: readonly components["schemas"]["SandboxLogEntry"][];
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /sandboxes/{sandbox_id}/diff": {
        readonly parameters: {
            readonly query?: {
                /** @description A snapshot to compare with; default: the template. */
                readonly since?: string;
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Diff"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /sandboxes/{sandbox_id}/diff/before": {
        readonly parameters: {
            readonly query: {
                /** @description An absolute path, or one below the home directory. */
                readonly path: string;
                /** @description A snapshot to compare with; default: the template. */
                readonly since?: string;
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/octet-stream": unknown;
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /sandboxes/{sandbox_id}/processes": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": {
                        readonly processes: readonly components["schemas"]["ShownProcess"][];
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /sandboxes/{sandbox_id}/processes/{pid}/signal": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
                readonly pid: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": components["schemas"]["SignalBody"];
            };
        };
        readonly responses: {
            /** @description Done */
            readonly 204: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /sandboxes/{sandbox_id}/ports": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["PortList"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /sandboxes/{sandbox_id}/metrics": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Reading"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /sandboxes/{sandbox_id}/metrics/history": {
        readonly parameters: {
            readonly query?: {
                /** @description No readings before this time, in unix seconds. */
                readonly start?: number;
                /** @description No readings after this time, in unix seconds. */
                readonly end?: number;
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": readonly components["schemas"]["SandboxMetric"][];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/Stat": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": components["schemas"]["PathRequest"];
            };
        };
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["EntryResponse"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/ListDir": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": components["schemas"]["ListDirRequest"];
            };
        };
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["ListDirResponse"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/MakeDir": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": components["schemas"]["PathRequest"];
            };
        };
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["EntryResponse"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/Move": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": components["schemas"]["MoveRequest"];
            };
        };
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["EntryResponse"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /sandboxes/{sandbox_id}/rpc/filesystem.Filesystem/Remove": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": components["schemas"]["PathRequest"];
            };
        };
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Empty"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /sandboxes/{sandbox_id}/rpc/process.Process/List": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": components["schemas"]["Empty"];
            };
        };
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["ListProcessesResponse"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /sandboxes/{sandbox_id}/rpc/process.Process/SendSignal": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": components["schemas"]["SendSignalRequest"];
            };
        };
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Empty"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /sandboxes/{sandbox_id}/files": {
        readonly parameters: {
            readonly query: {
                /** @description An absolute path, or one below the home directory. */
                readonly path: string;
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/octet-stream": unknown;
                };
            };
            /** @description A part of the file */
            readonly 206: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/octet-stream": unknown;
                };
            };
            /** @description Unchanged */
            readonly 304: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /sandboxes/{sandbox_id}/files": {
        readonly parameters: {
            readonly query: {
                /** @description An absolute path, or one below the home directory. */
                readonly path: string;
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/octet-stream": unknown;
            };
        };
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": readonly components["schemas"]["WrittenFile"][];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "post /sandboxes/{sandbox_id}/files/compose": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": components["schemas"]["ComposeBody"];
            };
        };
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["WrittenFile"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /sandboxes/{sandbox_id}/listing": {
        readonly parameters: {
            readonly query?: {
                /** @description An absolute path, or one below the home directory. */
                readonly path?: string;
                /** @description The number of entries to leave out. */
                readonly offset?: number;
                /** @description The most entries to give. */
                readonly limit?: number;
                /** @description What to sort by. */
                readonly sort?: "modified" | "name" | "size" | "type";
                /** @description Ascending or descending. */
                readonly order?: "asc" | "desc";
                /** @description A part of the names, in any case. */
                readonly filter?: string;
                /** @description Whether to list names that begin with a dot. */
                readonly hidden?: "false" | "true";
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": {
                        readonly entries: readonly components["schemas"]["EntryInfo"][];
                        readonly total: number;
                        readonly matching: number;
                    };
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /sandboxes/{sandbox_id}/archive": {
        readonly parameters: {
            readonly query?: {
                /** @description An absolute path, or one below the home directory. */
                readonly path?: string;
                /** @description Default: zip. */
                readonly format?: "tar" | "tar.gz" | "zip";
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/octet-stream": unknown;
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /sandboxes/{sandbox_id}/watch": {
        readonly parameters: {
            readonly query?: {
                /** @description An absolute path, or one below the home directory. */
                readonly path?: string;
                /** @description Whether to watch what is below, too. */
                readonly recursive?: "false" | "true";
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description A WebSocket */
            readonly 101: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /sandboxes/{sandbox_id}/terminals": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": readonly components["schemas"]["ListedTerminal"][];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /sandboxes/{sandbox_id}/terminals/{pid}": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
                readonly pid: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["TerminalState"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "delete /sandboxes/{sandbox_id}/terminals/{pid}": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
                readonly pid: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description Done */
            readonly 204: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "patch /sandboxes/{sandbox_id}/terminals/{pid}": {
        readonly parameters: {
            readonly query?: {
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
                readonly pid: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": components["schemas"]["TerminalNameBody"];
            };
        };
        readonly responses: {
            /** @description Success */
            readonly 200: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["NamedTerminal"];
                };
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    readonly "get /sandboxes/{sandbox_id}/terminal": {
        readonly parameters: {
            readonly query?: {
                /** @description The number of columns. */
                readonly cols?: number;
                /** @description The number of rows. */
                readonly rows?: number;
                /** @description A running terminal; default: a new one. */
                readonly pid?: number;
                /** @description The number of the first byte of its output to send. */
                readonly since?: number;
                /** @description The directory in which a new shell starts. */
                readonly cwd?: string;
                /** @description Whether to ignore keys. */
                readonly readOnly?: "1" | "false" | "true";
                /** @description A connection by name; default: the sandbox's, else the default one. */
                readonly connection?: string;
            };
            readonly header?: never;
            readonly path: {
                readonly sandbox_id: string;
            };
            readonly cookie?: never;
        };
        readonly requestBody?: never;
        readonly responses: {
            /** @description A WebSocket */
            readonly 101: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error, with its Connect code */
            readonly default: {
                headers: {
                    readonly [name: string]: unknown;
                };
                content: {
                    readonly "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
}
