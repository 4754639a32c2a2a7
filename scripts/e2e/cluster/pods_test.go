package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pod has the fields of a pod's status that the steps read.
type pod struct {
	name, ip   string
	service    string
	container  string // id of its container
	revision   string // hash of the template that it was created from
	ready      bool
	readySince time.Time // in whole seconds
	crashed    bool      // its container was restarted
}

// podList is the JSON with which kubectl lists pods.
type podList struct {
	Items []struct {
		Metadata struct {
			Name              string            `json:"name"`
			Labels            map[string]string `json:"labels"`
			DeletionTimestamp string            `json:"deletionTimestamp"`
		} `json:"metadata"`
		Status struct {
			PodIP      string `json:"podIP"`
			Conditions []struct {
				Type               string    `json:"type"`
				Status             string    `json:"status"`
				LastTransitionTime time.Time `json:"lastTransitionTime"`
			} `json:"conditions"`
			ContainerStatuses []struct {
				ContainerID  string `json:"containerID"`
				RestartCount int    `json:"restartCount"`
			} `json:"containerStatuses"`
		} `json:"status"`
	} `json:"items"`
}

// podsOf lists the pods of a service that are not terminating.
func (w *world) podsOf(t *testing.T, service string) []pod {
	t.Helper()
	return w.listPods(t, podsLabel(service))
}

// listPods lists the pods with these labels that are not terminating.
func (w *world) listPods(t *testing.T, labels string) []pod {
	t.Helper()
	var list podList
	out := w.kubectl(t, "get", "pods", "-l", labels, "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	var pods []pod
	for _, item := range list.Items {
		if item.Metadata.DeletionTimestamp != "" {
			continue
		}
		p := pod{
			name: item.Metadata.Name, ip: item.Status.PodIP,
			service: item.Metadata.Labels["app.kubernetes.io/name"], revision: item.Metadata.Labels["pod-template-hash"],
		}
		for _, c := range item.Status.Conditions {
			if c.Type == "Ready" {
				p.ready, p.readySince = c.Status == "True", c.LastTransitionTime
			}
		}
		for _, c := range item.Status.ContainerStatuses {
			p.container, p.crashed = strings.TrimPrefix(c.ContainerID, "containerd://"), c.RestartCount > 0
		}
		pods = append(pods, p)
	}
	return pods
}

func podsLabel(service string) string {
	return "app.kubernetes.io/instance=urr,app.kubernetes.io/name=" + service
}

// metrics reads a pod's metrics, from its port for probes and metrics.
func (p pod) metrics(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.ip+":9001/metrics", http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// metric sums the samples of a pod's metrics whose line starts with the name and contains the text;
// a missing metric is 0.
func (p pod) metric(t *testing.T, name, text string) float64 {
	t.Helper()
	body, err := p.metrics(t.Context())
	require.NoError(t, err)
	var sum float64
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, name+"{") || !strings.Contains(line, text) {
			continue
		}
		var value float64
		_, err := fmt.Sscan(line[strings.LastIndexByte(line, '}')+1:], &value)
		require.NoError(t, err, line)
		sum += value
	}
	return sum
}
