#!/usr/bin/env bash
# Install the foreign AMQP 1.0 stacks that the interop tests, the compat tests and the benchmarks talk to:
#
#   proton              python-qpid-proton, built from source into .venv-peers
#   rhea                the npm package, in tests/interop/peers/node_modules
#   azure-service-bus   the official JavaScript SDK, in tests/compat/node/node_modules
#   azure-java          the official Java SDKs and the program on them, in build/compat/java
#   spring              Spring Cloud Azure and the programs on it, in build/compat/spring
#   camel               Camel's component azure-servicebus and the program on it, in build/compat/camel
#   jms                 Qpid JMS, Spring's JMS template and the programs on them, in build/compat/jms
#   azure-go            the official Go SDKs and the program on them, in build/compat/go
#   rabbitmq            the broker, from the system's packages
#   amqp-load           our load generator on Qpid Proton C++, in build/amqp_load
#
# Packages of the system are installed with apt-get, as root or through sudo; nothing else in this repository does that.
# One line per peer says "ready" or why it is not; the same sentence is kept in build/peers/NAME.status, where the tests
# that then skip find their reason. A missing peer is never an error: nobody should need a compiler, npm or Erlang to
# work on Tandem. A second run leaves alone what the first one installed, and takes no time.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

readonly logs=build/peers
readonly venv=.venv-peers
readonly rabbitmq_server=/usr/lib/rabbitmq/bin/rabbitmq-server
readonly proton_header=/usr/include/proton/container.hpp

# A build that hangs (a registry out of reach, a lock held) must not hang the whole run.
readonly step_limit_s=600
readonly policy=/usr/sbin/policy-rc.d

has() { command -v "$1" >/dev/null 2>&1; }

say() { # NAME SENTENCE
    printf '%s\n' "$2" >"$logs/$1.status"
    printf '%s: %s\n' "$1" "$2"
}

ready() { say "$1" ready; }

not_available() { say "$1" "not available: $2"; }

logged() { # LOG COMMAND...
    local log=$logs/$1
    shift
    if has timeout; then set -- timeout "$step_limit_s" "$@"; fi
    "$@" >>"$log" 2>&1 </dev/null
}

# --- packages of the system -----------------------------------------------------------------------------------------

missing_packages() {
    has g++ || echo g++
    has node || echo nodejs
    has npm || echo npm
    has pkg-config || echo pkg-config
    [[ -e /usr/include/openssl/ssl.h ]] || echo libssl-dev # proton speaks TLS only if it was built with it
    [[ -e $proton_header ]] || echo libqpid-proton-cpp12-dev
    [[ -x $rabbitmq_server ]] || echo rabbitmq-server
    # Debian keeps the headers of its own Python in a package apart; other Pythons bring theirs.
    local python
    python=$(readlink -f .venv/bin/python)
    if [[ $python == /usr/bin/python3.* && ! -e /usr/include/${python##*/}/Python.h ]]; then echo "${python##*/}-dev"; fi
}

root=() # the command in front of those that need root
install_packages() {
    has apt-get || return
    local packages package
    mapfile -t packages < <(missing_packages)
    ((${#packages[@]})) || return
    if ((EUID != 0)); then
        sudo -n true 2>/dev/null || return
        root=(sudo -n)
    fi
    echo "peers: installing ${packages[*]}"
    logged apt.log "${root[@]}" apt-get update
    keep_services_down
    # One by one: a package that this release does not have must not keep the others away.
    for package in "${packages[@]}"; do
        logged apt.log "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
            -o DPkg::Lock::Timeout=120 "$package"
    done
    let_services_start
    # Nor after the next boot: the tests start a RabbitMQ of their own, on a free port.
    if [[ " ${packages[*]} " == *" rabbitmq-server "* ]] && has systemctl; then
        logged apt.log "${root[@]}" systemctl disable rabbitmq-server epmd
    fi
}

# Debian starts a service when its package is installed. A RabbitMQ on port 5672 would stand in the way of Tandem itself.
keep_services_down() {
    [[ -e $policy ]] && return
    trap let_services_start EXIT
    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null && "${root[@]}" chmod 755 "$policy"
}

let_services_start() {
    [[ -z $(trap -p EXIT) ]] && return
    trap - EXIT
    "${root[@]}" rm -f "$policy"
}

# --- the peers ------------------------------------------------------------------------------------------------------

build_proton() {
    local uv=.venv/bin/uv install
    install=("$uv" pip install --python "$venv/bin/python" --require-hashes --requirements requirements/peers.txt)
    rm -rf "$venv"
    logged proton.log "$uv" venv --python .venv/bin/python "$venv" || return
    # Two steps and no build isolation: an isolated build would fetch its tools without looking at their hashes.
    echo python-qpid-proton >"$logs/built-from-source.txt"
    logged proton.log "${install[@]}" --excludes "$logs/built-from-source.txt" || return
    logged proton.log "${install[@]}" --no-build-isolation || return
    logged proton.log "$venv/bin/python" -c 'import proton'
}

make_proton() {
    local stamp=$venv/.stamp inputs
    if [[ ! -x .venv/bin/uv ]]; then
        not_available proton 'the environment is missing, run make setup'
        return
    fi
    inputs="$(cksum <requirements/peers.txt) $(.venv/bin/python -VV)"
    if [[ -e $stamp && $(<"$stamp") == "$inputs" ]]; then
        ready proton
    elif ! has "${CC:-cc}"; then
        not_available proton 'it is built from source and there is no C compiler'
    elif build_proton; then
        printf '%s' "$inputs" >"$stamp"
        ready proton
    else
        not_available proton "building it failed, see $logs/proton.log"
    fi
}

make_npm_packages() { # NAME FOLDER
    local name=$1 folder=$2 stamp=$2/node_modules/.stamp inputs
    if ! has node || ! has npm; then
        not_available "$name" 'there is no Node.js with npm'
        return
    fi
    inputs=$(cksum <"$folder/package-lock.json")
    if [[ -e $stamp && $(<"$stamp") == "$inputs" ]]; then
        ready "$name"
    elif logged "$name.log" npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund; then
        printf '%s' "$inputs" >"$stamp"
        ready "$name"
    else
        not_available "$name" "npm ci failed, see $logs/$name.log"
    fi
}

# What the programs in Java and Go are made from; another sum means that one has to be built again.
sum_of() { # FILE...
    cat "$@" | cksum
}

build_java() { # NAME SOURCES BUILT FILE...
    local name=$1 sources=$2 library=$3/lib classes=$3/classes
    shift 3
    rm -rf "$library" "$classes"
    logged "$name.log" mvn --quiet --batch-mode --file "$sources/pom.xml" -Dmaven.repo.local="$PWD/build/maven" \
        dependency:copy-dependencies -DoutputDirectory="$PWD/$library" || return
    # Maven compares what it fetches with sums from the same place. These are ours.
    (cd "$library" && sha256sum --check --quiet --strict "$OLDPWD/$sources/jars.sha256") >>"$logs/$name.log" 2>&1 || return
    logged "$name.log" javac -cp "$library/*" -d "$classes" "$@"
}

make_java() { # NAME SOURCES BUILT FILE...: compile the sources in a folder, and files beside it, with what its pom.xml names
    local name=$1 sources=$2 built=$3 inputs
    shift 3
    inputs="$(sum_of "$sources"/* "$@") $(java -version 2>&1)"
    if [[ -e $built/.stamp && $(<"$built/.stamp") == "$inputs" ]]; then
        ready "$name"
    elif ! has mvn || ! has javac; then
        not_available "$name" 'there is no Java development kit with Maven'
    elif build_java "$name" "$sources" "$built" "$sources"/*.java "$@"; then
        printf '%s' "$inputs" >"$built/.stamp"
        ready "$name"
    else
        not_available "$name" "building it failed, see $logs/$name.log"
    fi
}

make_go_sdk() {
    local sources=tests/compat/go built=build/compat/go inputs
    inputs="$(sum_of "$sources"/*) $(go version 2>/dev/null)"
    mkdir -p "$built"
    if [[ -e $built/.stamp && $(<"$built/.stamp") == "$inputs" ]]; then
        ready azure-go
    elif ! has go; then
        not_available azure-go 'there is no Go'
    # Everything stays inside the clone, and can be deleted: Go makes its modules read-only by itself.
    elif logged azure-go.log env GOTOOLCHAIN=local GOMODCACHE="$PWD/build/go/modules" GOCACHE="$PWD/build/go/cache" \
        GOFLAGS='-mod=readonly -modcacherw -buildvcs=false' go -C "$sources" build -o "$PWD/$built/program" .; then
        printf '%s' "$inputs" >"$built/.stamp"
        ready azure-go
    else
        not_available azure-go "building it failed, see $logs/azure-go.log"
    fi
}

find_rabbitmq() {
    if [[ -x $rabbitmq_server ]]; then
        ready rabbitmq
    else
        not_available rabbitmq 'the Debian package rabbitmq-server is not installed'
    fi
}

make_amqp_load() {
    local source=bench/load/amqp_load.cpp program=build/amqp_load
    if [[ -x $program && $program -nt $source ]]; then
        ready amqp-load
    elif ! has g++ || [[ ! -e $proton_header ]]; then
        not_available amqp-load 'it needs the Debian packages g++ and libqpid-proton-cpp12-dev'
    elif logged amqp-load.log g++ -std=c++17 -O2 -Wall -Wextra -o "$program" "$source" -lqpid-proton-cpp -pthread; then
        ready amqp-load
    else
        not_available amqp-load "compiling it failed, see $logs/amqp-load.log"
    fi
}

mkdir -p "$logs"
# Two runs at once would build into the same folders.
if has flock; then
    exec 9>"$logs/lock"
    flock 9
fi
rm -f "$logs"/*.log
install_packages
make_proton
make_npm_packages rhea tests/interop/peers
make_npm_packages azure-service-bus tests/compat/node
make_java azure-java tests/compat/java build/compat/java
make_java spring tests/compat/frameworks/spring build/compat/spring tests/compat/frameworks/Journal.java
make_java camel tests/compat/frameworks/camel build/compat/camel tests/compat/frameworks/Journal.java
make_java jms tests/compat/jms build/compat/jms
make_go_sdk
find_rabbitmq
make_amqp_load
exit 0
