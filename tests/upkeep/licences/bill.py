"""The bill of materials: CycloneDX 1.6 as JSON (https://cyclonedx.org/docs/1.6/json/). Equal packages, equal bytes."""

from collections.abc import Mapping
from typing import Any

from tests.upkeep.licences.requirements import PROJECT_NAME, Package


def bill_of_materials(
    project: Mapping[str, Any], packages: Mapping[str, Package], licences: Mapping[str, str]
) -> dict[str, Any]:
    """Return the bill: each package with its version, its license and what it requires."""
    own = _reference(PROJECT_NAME, project["version"])
    references = {name: _reference(name, package.installed.version) for name, package in packages.items()}
    direct = sorted(references[name] for name, package in packages.items() if package.direct)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": PROJECT_NAME,
                "version": project["version"],
                "purl": own,
                "licenses": [{"expression": project["license"]}],
            }
        },
        "components": [
            {
                "type": "library",
                "bom-ref": references[name],
                "name": name,
                "version": package.installed.version,
                "scope": "required" if package.required else "optional",
                "purl": references[name],
                **({"licenses": [{"expression": licences[name]}]} if name in licences else {}),
                **({"properties": _extras(package)} if package.extras else {}),
            }
            for name, package in sorted(packages.items())
        ],
        "dependencies": [
            {"ref": own, "dependsOn": direct},
            *(
                {
                    "ref": references[name],
                    "dependsOn": sorted(references[each] for each in package.requires if each in references),
                }
                for name, package in sorted(packages.items())
            ),
        ],
    }


def _extras(package: Package) -> list[dict[str, str]]:
    return [{"name": "dragoman:extra", "value": extra} for extra in sorted(package.extras)]


def _reference(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"
