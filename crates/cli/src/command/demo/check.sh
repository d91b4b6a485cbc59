# Says whether the greeting is right.
said=$(sh greet.sh)
echo "greet.sh says: $said"
if [ "$said" = "Hello, world" ]; then
    echo "PASS"
else
    echo "FAIL: it should say: Hello, world"
    exit 1
fi
