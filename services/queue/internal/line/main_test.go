package line_test

import (
	"os"
	"testing"

	"urr.guru/pkg/processtest"
	"urr.guru/pkg/redis/redistest"
)

func TestMain(m *testing.M) { os.Exit(processtest.WithLeakCheck(m).Run()) }

// The two tests are left out: one has a cluster of its own, the other takes long.
func TestSuiteOnCluster(t *testing.T) {
	redistest.OnCluster(t, "TestHangingClusterNodeFailsOnlyItsEvents", "TestPresaleCrowd")
}
