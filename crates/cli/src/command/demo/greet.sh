echo "Helo, world"
