package charts_test

import (
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"urr.guru/pkg/charttest"
	"urr.guru/scripts/platform"
)

// kindFile returns the path of a file of the development cluster.
func (b fixture) kindFile(name string) string {
	return filepath.Join(b.layout.Root, "deploy", "kind", name)
}

// renderKind renders the charts as deploy/kind/up.sh does.
func (b fixture) renderKind(t *testing.T) []byte {
	t.Helper()
	return b.run(t, nil, "helm", "template", "urr", b.charts("urr"), "-n", "urr",
		"--values", b.charts("urr", "values-development.yaml"), "--values", b.kindFile("values.yaml"),
		"--set", "secrets.generate=always")
}

// The charts are valid with the values for kind. TestObjectsAreValid checks the backends' files.
func TestKindValuesRenderValidObjects(t *testing.T) {
	t.Parallel()
	b := setup(t)
	schemas := filepath.Join(writeSchemas(t, b), "{{.ResourceKind}}-{{.Group}}-{{.ResourceAPIVersion}}.json")
	out := b.run(t, b.renderKind(t), "kubeconform", "-strict", "-summary", "-schema-location", schemas, "-")
	require.Contains(t, string(out), "Invalid: 0")
	require.Contains(t, string(out), "Skipped: 0")
}

// object has the fields of a Kubernetes object that contain addresses, or that make one reachable.
type object struct {
	Kind       string
	Metadata   struct{ Name string }
	Data       map[string]string
	StringData map[string]string `yaml:"stringData"`
	Spec       struct {
		Selector yaml.Node
		Ports    []struct {
			Port       int
			TargetPort string `yaml:"targetPort"`
			NodePort   int    `yaml:"nodePort"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Containers []struct {
					Env   []struct{ Name, Value string }
					Ports []struct {
						Name          string
						ContainerPort int `yaml:"containerPort"`
					}
				}
			}
		}
	}
}

// values returns the texts of an object that may contain an address.
func (o object) values() []string {
	var texts []string
	for _, data := range []map[string]string{o.Data, o.StringData} {
		for _, text := range data {
			texts = append(texts, text)
		}
	}
	for _, c := range o.Spec.Template.Spec.Containers {
		for _, env := range c.Env {
			texts = append(texts, env.Value)
		}
	}
	return texts
}

// serves returns every address (host:port) of a Service that leads to a pod: the Service selects a
// Deployment with a container port of the same name.
func serves(t *testing.T, objects []object) map[string]bool {
	t.Helper()
	addresses := map[string]bool{}
	for _, service := range objects {
		if service.Kind != "Service" {
			continue
		}
		var labels selector
		require.NoError(t, service.Spec.Selector.Decode(&labels.MatchLabels), service.Metadata.Name)
		for _, o := range objects {
			if o.Kind != "Deployment" || !labels.selects(o.Spec.Template.Metadata.Labels) {
				continue
			}
			for _, port := range service.Spec.Ports {
				for _, c := range o.Spec.Template.Spec.Containers {
					for _, p := range c.Ports {
						if p.Name == port.TargetPort {
							addresses[net.JoinHostPort(service.Metadata.Name, strconv.Itoa(port.Port))] = true
						}
					}
				}
			}
		}
	}
	return addresses
}

// Every address in the rendered charts and the backends' files leads to a pod of the same cluster.
func TestKindAddressesAreServed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	objects := charttest.Decode[object](t, b.renderKind(t))
	for _, file := range []string{"backends.yaml", "sandbox.yaml"} {
		objects = append(objects, charttest.Decode[object](t, []byte(read(t, b.kindFile(file))))...)
	}
	served := serves(t, objects)
	address := regexp.MustCompile(`(?:^|[/@,])([a-z][a-z0-9-]*):([0-9]+)`)
	withoutPort := regexp.MustCompile(`http://([a-z][a-z0-9-]*)(?:/|$)`)
	found := map[string]bool{}
	for _, o := range objects {
		for _, text := range o.values() {
			for _, m := range address.FindAllStringSubmatch(text, -1) {
				found[m[1]+":"+m[2]] = true
			}
			for _, m := range withoutPort.FindAllStringSubmatch(text, -1) {
				found[m[1]+":80"] = true
			}
		}
	}
	for hostPort := range found {
		require.True(t, served[hostPort], "%s leads to no pod: %v", hostPort, served)
	}
	// The test has found addresses of every kind.
	require.Subset(t, found, map[string]bool{
		"kafka:9092": true, "redis:6379": true, "redis:6381": true, "postgres:5432": true, "dynamodb:8000": true,
		"elasticmq:9324": true, "sandbox:8080": true, "urr-queue-headless:9000": true, "urr-gateway:80": true,
	})
}

// The backends have a database for each service, a Redis Cluster of at least three masters, and the
// account of the SQS queue.
func TestKindBackendsAreComplete(t *testing.T) {
	t.Parallel()
	b := setup(t)
	backends := read(t, b.kindFile("backends.yaml"))
	for _, name := range platform.Databases() {
		require.Contains(t, backends, "CREATE DATABASE "+name+";")
	}
	clusters, queues := 0, 0
	for _, o := range charttest.Decode[object](t, b.renderKind(t)) {
		if nodes, found := o.Data["REDIS_ADDRS"]; found {
			clusters++
			require.GreaterOrEqual(t, len(strings.Split(nodes, ",")), 3, o.Metadata.Name)
		}
		if url, found := o.Data["SQS_QUEUE_URL"]; found {
			queues++
			require.Equal(t, "true", o.Data["SQS_ENABLED"])
			require.Contains(t, backends, `accountId = "`+strings.Split(url, "/")[3]+`"`)
		}
	}
	require.Positive(t, clusters)
	require.Positive(t, queues)
}

// Every service that uses Kafka signs in as a user of its own, whom the broker knows and grants what
// the service needs.
func TestKindUsersOfKafka(t *testing.T) {
	t.Parallel()
	b := setup(t)
	backends, acls := read(t, b.kindFile("backends.yaml")), read(t, b.charts("kafka-acls.sh"))
	users := 0
	for _, o := range charttest.Decode[object](t, b.renderKind(t)) {
		mechanism, found := o.Data["KAFKA_SASL"]
		if !found {
			continue
		}
		users++
		require.Equal(t, "SCRAM-SHA-512", mechanism, o.Metadata.Name)
		require.NotContains(t, o.Data, "KAFKA_PLAIN", o.Metadata.Name)
		service := strings.TrimPrefix(o.Data["KAFKA_USERNAME"], "urr-")
		require.Contains(t, o.Metadata.Name, "urr-"+service+"-", "the ConfigMap of another service")
		require.Contains(t, backends, "{name: urr-kafka-"+service+", items: [{key: password, path: "+service+"}]}")
		require.Contains(t, acls, "\nallow "+service+" ")
	}
	require.Equal(t, strings.Count(backends, "{name: urr-kafka-"), users)
	require.Positive(t, users)
}

// The port on the host leads to the gateway, is the port in up.sh and in the README, and belongs to
// no process of `make up`, whose ports are shifted by thousands.
func TestKindPort(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var cluster struct {
		Nodes []struct {
			ExtraPortMappings []struct {
				ContainerPort int `yaml:"containerPort"`
				HostPort      int `yaml:"hostPort"`
			} `yaml:"extraPortMappings"`
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, b.kindFile("kind.yaml"))), &cluster))
	mapping := cluster.Nodes[0].ExtraPortMappings[0]
	var nodePorts []int
	for _, o := range charttest.Decode[object](t, b.renderKind(t)) {
		if o.Kind == "Service" && o.Metadata.Name == "urr-gateway" {
			nodePorts = append(nodePorts, o.Spec.Ports[0].NodePort)
		}
	}
	require.Equal(t, []int{mapping.ContainerPort}, nodePorts)
	for _, file := range []string{"up.sh", "README.md"} {
		found := regexp.MustCompile(`127\.0\.0\.1:([0-9]+)`).FindAllStringSubmatch(read(t, b.kindFile(file)), -1)
		require.NotEmpty(t, found, file)
		for _, m := range found {
			require.Equal(t, strconv.Itoa(mapping.HostPort), m[1], file)
		}
	}
	require.False(t, slices.ContainsFunc(platform.Ports(), func(port int) bool { return (mapping.HostPort-port)%1000 == 0 }))
}
