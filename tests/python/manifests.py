"""Whether the manifests of the CSI driver hold together: what is mounted is a volume, who is bound is there, what is selected
has the labels, and the options of the driver are those of the command.

Called by tests/packaging.sh; WEFT_CSI names the driver, if it was built.
"""

import os, pathlib, subprocess, sys, yaml

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "packaging/kubernetes"))
import render

def options(role):
    """The options that a role of the driver knows."""
    driver = os.environ.get("WEFT_CSI", "")
    if not os.access(driver, os.X_OK):
        return None
    return subprocess.run([driver, role, "--help"], capture_output=True, text=True, check=True).stdout

def check(objects):
    there = {(one["kind"], one["metadata"]["name"]) for one in objects}
    assert len(there) == len(objects), "an object is there twice"
    for one in objects:
        if one["kind"] in ("ClusterRoleBinding", "RoleBinding"):
            assert (one["roleRef"]["kind"], one["roleRef"]["name"]) in there, one
            assert all((s["kind"], s["name"]) in there for s in one["subjects"]), one
        if one["kind"] not in ("Deployment", "DaemonSet"):
            continue
        pod = one["spec"]["template"]
        assert one["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
        assert ("ServiceAccount", pod["spec"]["serviceAccountName"]) in there
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
        containers = pod["spec"].get("initContainers", []) + pod["spec"]["containers"]
        used = {mount["name"] for container in containers for mount in container["volumeMounts"]}
        assert used == volumes, used ^ volumes
        for container in containers:
            role, *words = container.get("args", [""])
            said = options(role) if container["name"] == "weft-csi" else None
            for word in words if said else []:
                assert word.partition("=")[0] in said, f"{role} has no option {word}"

for changes in [], [(".Values.snapshotMetadata.enabled", True)]:
    text = render.everything(changes)
    assert "{{" not in text
    check(list(yaml.safe_load_all(text)))
