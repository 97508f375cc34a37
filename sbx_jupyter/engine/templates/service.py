"""Everything that may be asked about templates, in one place."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sbx_jupyter.engine.templates.build import Tools
from sbx_jupyter.engine.templates.builder import Builder
from sbx_jupyter.engine.templates.cache import StepCache
from sbx_jupyter.engine.templates.images.blobs import Blobs
from sbx_jupyter.engine.templates.images.library import Images
from sbx_jupyter.engine.templates.tags import Tags
from sbx_jupyter.engine.templates.uploads import Uploads
from sbx_jupyter.engine.templates.views import Views
from sbx_jupyter.isolation.kernel import users
from sbx_jupyter.isolation.tiers import Tier

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.templates.catalog import Catalog
    from sbx_jupyter.isolation.fence import Fence
    from sbx_jupyter.isolation.tiers import IsolationReport


@dataclass(frozen=True, slots=True)
class Templates:
    """The templates of one engine: what they are, and how they are made."""

    builder: Builder
    tags: Tags
    views: Views
    uploads: Uploads
    images: Images

    @classmethod
    async def open(
        cls, context: Context, catalog: Catalog, fence: Fence, report: IsolationReport, tier: str
    ) -> Templates:
        """Take up what an engine before left; the fence has started."""
        folder = context.data_dir.path
        blobs = Blobs(folder / "blobs")
        await asyncio.to_thread(blobs.open)
        has_namespaces = tier == Tier.NAMESPACES
        images = Images(context, fence, blobs, can_unpack=has_namespaces)
        uploads = Uploads(folder / "uploads", folder)
        tools = Tools(
            context=context,
            catalog=catalog,
            cache=StepCache(context),
            uploads=uploads,
            images=images,
            stock="" if fence.stock is None else fence.stock.name,
            virtual=report.users == users.VIRTUAL or not has_namespaces,
            has_roots=has_namespaces,
        )
        builder = Builder(tools)
        await builder.open()
        await tools.cache.trim()
        tags, views = Tags(context.store, catalog), Views(context.store, catalog)
        return cls(builder, tags, views, uploads, images)
