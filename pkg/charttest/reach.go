package charttest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
)

// objectSchema holds the properties of one object in a JSON schema.
type objectSchema struct {
	Properties map[string]json.RawMessage `json:"properties"`
}

// chartSchema is the part of a chart's values.schema.json that lists what operators may set.
type chartSchema struct {
	Properties struct {
		Config, Secrets, Queues objectSchema
		RPC                     struct {
			Properties struct{ Calls objectSchema } `json:"properties"`
		} `json:"rpc"`
	} `json:"properties"`
}

// readValuesSchema reads the values.schema.json of a service's chart.
func readValuesSchema(t *testing.T, charts, service string) chartSchema {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(charts, service, "values.schema.json"))
	require.NoError(t, err)
	var s chartSchema
	require.NoError(t, json.Unmarshal(raw, &s))
	return s
}

// peerAddresses returns helm arguments that set the address of every service that this one calls.
func peerAddresses(t *testing.T, service string) []string {
	t.Helper()
	var args []string
	for callee := range readValuesSchema(t, filepath.Join(checkoutFolder(t), "deploy", "helm"), service).Properties.RPC.Properties.Calls.Properties {
		args = append(args, "--set", "rpc.calls."+callee+".address="+callee+":9000")
	}
	return args
}

// requireVariablesSettable fails when no value of the chart sets a variable of C: operators could
// never use that variable.
func requireVariablesSettable[C any](t *testing.T, service string) {
	t.Helper()
	charts := filepath.Join(checkoutFolder(t), "deploy", "helm")
	var settable []string
	for _, template := range []string{"_environment.tpl", "_secrets.tpl"} {
		shared, err := os.ReadFile(filepath.Join(charts, "urr-lib", "templates", template))
		require.NoError(t, err)
		// Variables that the library chart sets for every service.
		settable = append(settable, regexp.MustCompile(`\b[A-Z][A-Z0-9_]{3,}\b`).FindAllString(string(shared), -1)...)
	}

	schema := readValuesSchema(t, charts, service)
	for _, object := range []objectSchema{schema.Properties.Config, schema.Properties.Secrets} {
		for name := range object.Properties {
			settable = append(settable, name)
		}
	}
	for callee := range schema.Properties.RPC.Properties.Calls.Properties {
		settable = append(settable, strings.ToUpper(callee)+"_ADDR", strings.ToUpper(callee)+"_RPC_KEY")
	}
	for queue := range schema.Properties.Queues.Properties {
		prefix := strings.ToUpper(strings.ReplaceAll(queue, "-", "_"))
		settable = append(settable, prefix+"_QUEUE_URL", prefix+"_QUEUE_ENDPOINT")
	}
	for _, secret := range config.Secrets[C]() {
		settable = append(settable, secret+config.FileSuffix) // mountSecrets sets it
	}
	for _, variable := range config.Variables[C]() {
		require.True(t, slices.Contains(settable, variable), "no value of the chart %s sets %s, which the service reads", service, variable)
	}
}
