"""Makes weft-csi.yaml, the manifests for `kubectl apply`, out of the chart and its values.

The chart's templates have nothing but values and conditions on values, so that this is enough:
    packaging/kubernetes/render.py > packaging/kubernetes/weft-csi.yaml
"""

import pathlib, re, sys, yaml

HERE = pathlib.Path(__file__).parent
NAMESPACE = "weft-csi"
HEAD = f"""# Made by packaging/kubernetes/render.py out of the chart beside it: change that, and make this again.
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    pod-security.kubernetes.io/enforce: privileged
"""

def value(values, path):
    for key in path.split(".")[2:]:
        values = values[key]
    return values

def rendered(template, values):
    condition = re.compile(r"^\{\{- if (\.Values[\w.]+) \}\}\n(.*?)^\{\{- end \}\}\n", re.MULTILINE | re.DOTALL)
    text = condition.sub(lambda found: found[2] if value(values, found[1]) else "", template)
    text = text.replace("{{ .Release.Namespace }}", NAMESPACE)
    return re.sub(r"\{\{ (\.Values[\w.]+) \}\}", lambda found: str(value(values, found[1])), text)

def everything(changes=()):
    values = yaml.safe_load((HERE / "chart/values.yaml").read_text())
    for path, new in changes:
        value(values, path.rpartition(".")[0])[path.rpartition(".")[2]] = new
    templates = sorted((HERE / "chart/templates").glob("*.yaml"))
    return "---\n".join([HEAD] + [rendered(template.read_text(), values) for template in templates])

if __name__ == "__main__":
    sys.stdout.write(everything())
