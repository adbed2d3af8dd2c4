"""Options of clusters on Kubernetes.

Source: org.apache.flink.kubernetes.configuration.KubernetesConfigOptions.
Differs: no image is the default, because none is published.
"""

from __future__ import annotations

from flinkpy.configuration.options import (
    bool_option,
    enum_option,
    float_option,
    int_option,
    list_option,
    map_option,
    string_option,
)

CONTEXT = string_option(
    "kubernetes.context", None, "Context of the file of `kubernetes.config.file`. Default: its current context."
)
CONFIG_FILE = string_option(
    "kubernetes.config.file",
    None,
    "File that says where the API server is and how to authenticate. Default: the service account of the pod; outside "
    "of a pod `$KUBECONFIG` or `~/.kube/config`.",
)
NAMESPACE = string_option("kubernetes.namespace", "default", "Namespace of the cluster's pods.")
CLUSTER_ID = string_option(
    "kubernetes.cluster-id",
    None,
    "Name of the cluster, from which the names of its objects in Kubernetes are made: at most 45 lower-case letters, "
    "digits and `-`, beginning with a letter.",
)
CONTAINER_IMAGE = string_option(
    "kubernetes.container.image.ref", None, "Image with flinkpy and what the programs need, for all pods."
)
CONTAINER_IMAGE_PULL_POLICY = enum_option(
    "kubernetes.container.image.pull-policy",
    ("IfNotPresent", "Always", "Never"),
    "IfNotPresent",
    "When nodes fetch the image.",
)
CONTAINER_IMAGE_PULL_SECRETS = list_option(
    "kubernetes.container.image.pull-secrets", (), "Names of the secrets for the registry of the image."
)
JOB_MANAGER_SERVICE_ACCOUNT = string_option(
    "kubernetes.jobmanager.service-account",
    "default",
    "Service account of the masters, whose ResourceManager creates pods.",
    "kubernetes.service-account",
)
JOB_MANAGER_CPU = float_option("kubernetes.jobmanager.cpu.amount", 1.0, "CPUs that the masters request.")
JOB_MANAGER_CPU_LIMIT_FACTOR = float_option(
    "kubernetes.jobmanager.cpu.limit-factor",
    1.0,
    "CPU limit of the masters, as a multiple of what they request.",
    minimum=1.0,
)
JOB_MANAGER_MEMORY_LIMIT_FACTOR = float_option(
    "kubernetes.jobmanager.memory.limit-factor",
    1.0,
    "Memory limit of the masters, as a multiple of `jobmanager.memory.process.size`.",
    minimum=1.0,
)
JOB_MANAGER_LABELS = map_option("kubernetes.jobmanager.labels", "Additional labels of the pods of masters.")
JOB_MANAGER_ANNOTATIONS = map_option("kubernetes.jobmanager.annotations", "Annotations of the pods of masters.")
JOB_MANAGER_NODE_SELECTOR = map_option(
    "kubernetes.jobmanager.node-selector", "Labels that a node must have to run masters."
)
JOB_MANAGER_TOLERATIONS = list_option(
    "kubernetes.jobmanager.tolerations",
    (),
    "Tolerations of the pods of masters, each as `key:key1,operator:Equal,value:value1,effect:NoSchedule`.",
)
JOB_MANAGER_ENTRYPOINT_ARGS = string_option(
    "kubernetes.jobmanager.entrypoint.args", "", "Additional arguments of `flinkpy dispatcher`."
)
JOB_MANAGER_POD_TEMPLATE = string_option(
    "kubernetes.pod-template-file.jobmanager",
    None,
    "YAML file with the pod that the pods of masters are made of. Its container `flink-main-container` becomes the "
    "Dispatcher.",
    "kubernetes.pod-template-file.default",
)
JOB_MANAGER_REPLICAS = int_option(
    "kubernetes.jobmanager.replicas",
    1,
    "Number of pods of masters. More than one need high availability.",
    minimum=1,
)
JOB_MANAGER_OWNER_REFERENCE = list_option(
    "kubernetes.jobmanager.owner.reference",
    (),
    "Objects that own the cluster, so that it is deleted with them, each as "
    "`apiVersion:v1,kind:ConfigMap,name:owner,uid:...,controller:true,blockOwnerDeletion:true`.",
)
HOST_NETWORK_ENABLED = bool_option(
    "kubernetes.hostnetwork.enabled", False, "Let all pods use the network of their nodes instead of one of their own."
)
PERSISTENT_VOLUME_CLAIM_READ_ONLY = bool_option(
    "kubernetes.persistent-volume-claim-read-only",
    False,
    "Mount the volumes of `kubernetes.persistent-volume-claims` for reading only.",
)
INTERNAL_SERVICE_LABELS = map_option(
    "kubernetes.internal-service.labels", "Additional labels of the service among the pods of the cluster."
)
INTERNAL_SERVICE_ANNOTATIONS = map_option(
    "kubernetes.internal-service.annotations", "Annotations of the service among the pods of the cluster."
)
REST_SERVICE_EXPOSED_TYPE = enum_option(
    "kubernetes.rest-service.exposed.type",
    ("ClusterIP", "NodePort", "LoadBalancer", "Headless_ClusterIP"),
    "ClusterIP",
    "Type of the service by which clients reach the Dispatcher. Clients outside of Kubernetes need `NodePort` or "
    "`LoadBalancer`.",
)
REST_SERVICE_EXPOSED_NODE_PORT_ADDRESS_TYPE = enum_option(
    "kubernetes.rest-service.exposed.node-port-address-type",
    ("InternalIP", "ExternalIP"),
    "InternalIP",
    "Which address of a node clients use if the type of the service is `NodePort`.",
)
REST_SERVICE_LABELS = map_option("kubernetes.rest-service.labels", "Additional labels of the service for clients.")
REST_SERVICE_ANNOTATIONS = map_option(
    "kubernetes.rest-service.annotations", "Annotations of the service for clients, such as those of load balancers."
)
TASK_MANAGER_SERVICE_ACCOUNT = string_option(
    "kubernetes.taskmanager.service-account",
    "default",
    "Service account of TaskExecutors. They do not call the API server, so it needs no role.",
    "kubernetes.service-account",
)
TASK_MANAGER_CPU = float_option(
    "kubernetes.taskmanager.cpu.amount",
    -1.0,
    "CPUs that a TaskExecutor requests. Default: one per slot.",
)
TASK_MANAGER_CPU_LIMIT_FACTOR = float_option(
    "kubernetes.taskmanager.cpu.limit-factor",
    1.0,
    "CPU limit of a TaskExecutor, as a multiple of what it requests.",
    minimum=1.0,
)
TASK_MANAGER_MEMORY_LIMIT_FACTOR = float_option(
    "kubernetes.taskmanager.memory.limit-factor",
    1.0,
    "Memory limit of a TaskExecutor, as a multiple of `taskmanager.memory.process.size`.",
    minimum=1.0,
)
TASK_MANAGER_LABELS = map_option("kubernetes.taskmanager.labels", "Additional labels of TaskExecutor pods.")
TASK_MANAGER_ANNOTATIONS = map_option("kubernetes.taskmanager.annotations", "Annotations of TaskExecutor pods.")
TASK_MANAGER_NODE_SELECTOR = map_option(
    "kubernetes.taskmanager.node-selector", "Labels that a node must have to run a TaskExecutor."
)
TASK_MANAGER_TOLERATIONS = list_option(
    "kubernetes.taskmanager.tolerations",
    (),
    "Tolerations of TaskExecutor pods, each as `key:key1,operator:Equal,value:value1,effect:NoSchedule`.",
)
TASK_MANAGER_ENTRYPOINT_ARGS = string_option(
    "kubernetes.taskmanager.entrypoint.args", "", "Additional arguments of `flinkpy taskexecutor`."
)
TASK_MANAGER_POD_TEMPLATE = string_option(
    "kubernetes.pod-template-file.taskmanager",
    None,
    "YAML file with the pod that TaskExecutor pods are made of. Its container `flink-main-container` becomes the "
    "TaskExecutor.",
    "kubernetes.pod-template-file.default",
)
SECRETS = map_option("kubernetes.secrets", "Secrets to mount into the containers, as `name:/path`.")
ENV_SECRET_KEY_REF = list_option(
    "kubernetes.env.secretKeyRef",
    (),
    "Environment variables from secrets, each as `env:NAME,secret:name,key:key`.",
)
PERSISTENT_VOLUME_CLAIMS = map_option(
    "kubernetes.persistent-volume-claims", "Persistent volume claims to mount into the containers, as `name:/path`."
)
