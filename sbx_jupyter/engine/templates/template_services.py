"""The template services of one engine, for the handlers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sbx_jupyter.engine.templates.builds.build import BuildServices
from sbx_jupyter.engine.templates.builds.builder import Builder
from sbx_jupyter.engine.templates.builds.step_cache import StepCache
from sbx_jupyter.engine.templates.details import TemplateDetails
from sbx_jupyter.engine.templates.images.blobs import Blobs
from sbx_jupyter.engine.templates.images.image_store import ImageStore
from sbx_jupyter.engine.templates.tags import Tags
from sbx_jupyter.engine.templates.template_listing import TemplateListing
from sbx_jupyter.engine.templates.uploads import Uploads
from sbx_jupyter.isolation.kernel import users
from sbx_jupyter.isolation.tiers import Tier

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.storage.flatten import Flattener
    from sbx_jupyter.engine.templates.catalogue import Catalogue
    from sbx_jupyter.isolation.privileged.remote_fence import AnyFence
    from sbx_jupyter.isolation.tiers import IsolationReport


@dataclass(frozen=True, slots=True)
class Templates:
    """Lists, tags, builds and imports templates."""

    builder: Builder
    tags: Tags
    listing: TemplateListing
    uploads: Uploads
    images: ImageStore
    details: TemplateDetails

    @classmethod
    async def open(
        cls,
        context: Context,
        catalogue: Catalogue,
        flattener: Flattener,
        fence: AnyFence,
        report: IsolationReport,
        tier: str,
    ) -> Templates:
        """Open the template services after the fence has started.

        Builds that an earlier engine did not finish are marked as failed.
        """
        folder = context.data_dir.path
        blobs = Blobs(folder / "blobs")
        await asyncio.to_thread(blobs.open)
        has_namespaces = tier == Tier.NAMESPACES
        images = ImageStore(context, fence, blobs, can_unpack=has_namespaces)
        uploads = Uploads(folder / "uploads", folder)
        services = BuildServices(
            context=context,
            catalogue=catalogue,
            flattener=flattener,
            cache=StepCache(context),
            uploads=uploads,
            images=images,
            stock="" if fence.stock is None else fence.stock.name,
            virtual=report.users == users.VIRTUAL or not has_namespaces,
            has_roots=has_namespaces,
        )
        builder = Builder(services)
        await builder.open()
        await services.cache.trim()
        tags, listing = Tags(context.store, catalogue), TemplateListing(context.store, catalogue)
        details = TemplateDetails(context.store, catalogue)
        return cls(builder, tags, listing, uploads, images, details)
